"""Any MCP server as an environment (docs/mcp.md). The SDK is an extra; nothing else of the project
imports it."""
