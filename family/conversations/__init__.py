"""`rods data import chats`: conversations that others have logged, as tasks."""
