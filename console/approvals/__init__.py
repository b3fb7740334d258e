"""The pages of approvals: the inbox, single change requests, and several reviewed together."""
