"""What a mirror tells about itself: status records, the board that folds them, metrics and their exposition."""
