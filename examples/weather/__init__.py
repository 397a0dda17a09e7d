"""Weather stations of two cities, over six protocols in, and one table out of Spark: `python -m examples.weather`.

reading.py       what the stations measured: hourly temperatures that come with the package vega_datasets
mqtt_station.py  Seattle publishes its readings over MQTT
coap_station.py  San Francisco posts its readings over CoAP
alarm.py         cold and heat are CloudEvents over HTTP
calibration.py   what to add to each station's thermometer, sent by the RocketMQ SDK
table.py         two Spark queries that read all of it into Parquet, and the table
check.py         the same table computed from the input in plain Python, and the comparison
node.py          a Headgate node on free ports, when none is given
"""
