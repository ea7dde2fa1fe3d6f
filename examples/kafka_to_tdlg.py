"""Score the events of a Kafka topic and write the answers to another one. It needs confluent-kafka, and is here to be read.

The offset up to which events were read is logged together with them. After a crash the consumer starts there, so no event
is lost. Kafka may deliver an event twice: it has the same id, gets the same answer and counts once. The answers of the last
batch may be written twice, so the readers of the second topic should take the first answer per id.

    python kafka_to_tdlg.py model.tdlg live localhost:9092 payments scores
"""

import json
import sys

from confluent_kafka import Consumer, Producer, TopicPartition

from tdlg import LiveModel

BATCH, WAIT = 1000, 0.05  # the most events that are logged together, and for how many seconds to wait for them


def main(model, folder, servers, events, answers):
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "tdlg", "enable.auto.commit": False})
    producer = Producer({"bootstrap.servers": servers})
    with LiveModel.open(folder, model) as live:
        offset = 0 if live.position is None else live.position["offset"]
        consumer.assign([TopicPartition(events, 0, offset)])  # one partition: one process holds the state
        while True:
            messages = [message for message in consumer.consume(BATCH, WAIT) if message.error() is None]
            if messages:
                answer(live, messages, producer, answers)


def answer(live, messages, producer, topic):
    """Log, score and learn a batch, then write the answers: what is answered is on the disk."""
    given = [event for event in map(parsed, messages) if event is not None]
    position = {"offset": messages[-1].offset() + 1}
    for found in live.submit(given, position):
        if found.error is None:
            content = {"id": found.id, "score": found.score, "alert": found.alert}
        else:
            content = {"id": found.id, "error": f"{found.error.field}: {found.error.message}"}
        producer.produce(topic, json.dumps(content), key=str(found.id))
    producer.flush()


def parsed(message):
    """The event in a message; None for one that is not JSON, which is reported and skipped."""
    try:
        return json.loads(message.value())
    except (TypeError, ValueError) as error:
        print(f"offset {message.offset()} is skipped: {error}", file=sys.stderr)
        return None


if __name__ == "__main__":
    main(*sys.argv[1:])
