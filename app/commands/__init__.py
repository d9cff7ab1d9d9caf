"""The commands, one file each; `register(cli)` of a file adds its command."""
