"""Runs expensive functions of continuous queries behind queues, in processes that live on."""
