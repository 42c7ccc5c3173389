"""CircleMatch inside other programs.

wyoming_events    events of the Wyoming protocol from a connection, none larger than allowed
wyoming_models    the wake words that are served: their models, descriptions, and changes of their files
wyoming_session   one client: from its events to the answers
wyoming_server    connections, and what ends them
pipecat           a frame processor for Pipecat's pipelines
"""
