"""The screen: what a reader sees and touches. Numbers come from attention_core and are only shown here."""
