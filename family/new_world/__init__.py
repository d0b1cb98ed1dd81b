"""`rods init`: a folder with a world of its own to start from. What it holds lies in
`template/`."""
