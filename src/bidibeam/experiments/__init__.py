"""The whole experiment, from a corpus to a report, as stages that can be killed and go on."""
