"""What the mirror tells about itself."""
