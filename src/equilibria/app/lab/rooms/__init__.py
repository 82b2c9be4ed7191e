"""What each room computes. A room is one class in rooms/NAME.py; `room.py` has what they share."""
