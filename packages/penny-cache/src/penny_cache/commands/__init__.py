"""The `penny-cache` command, one file per subcommand.

| Module | Has |
|---|---|
| `ls`, `stat`, `verify`, `gc` | looking at a store, checking it, making room in it |
| `export`, `bring` | `export` and `import`: bundles into one file and out of it |
| `namespaces` | `namespace show`, `diff` and `gc` |
| `where`, `units`, `output` | which store a path means; sizes and times for people; tables, JSON, progress bars |
| `later` | subcommands that are imported when they are called |
"""
