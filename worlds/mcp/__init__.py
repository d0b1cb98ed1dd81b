"""Any MCP server as an environment (docs/mcp.md): its description is a JSON file that `rods env add` writes.

`description` is that file, `sessions` the connections to servers, `world` the environment over them. The SDK is an
extra, `pip install '.[mcp]'` in the clone; nothing else of the project imports it.
"""
