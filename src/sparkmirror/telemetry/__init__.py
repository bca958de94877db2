"""A mirror's reports about itself: status records, the board that folds them, metrics and their exposition."""
