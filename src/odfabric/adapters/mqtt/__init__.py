"""Messages of MQTT brokers."""
