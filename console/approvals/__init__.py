"""The pages of approvals: what waits, the page of a change, and the decision."""
