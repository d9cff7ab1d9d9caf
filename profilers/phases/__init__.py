"""What ran: prefill, decode and mixed steps of a report."""
