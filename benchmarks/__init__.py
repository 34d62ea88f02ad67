"""Speed, side by side with what a user would pick instead, and the stored calibration matrix: not part of the package."""
