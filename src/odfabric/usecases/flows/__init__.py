"""What runs by itself: flows are made, caused, started, ended and explained."""
