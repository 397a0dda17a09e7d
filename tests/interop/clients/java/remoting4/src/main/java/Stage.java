import frame.Performance;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Queue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What one scenario of the 4.x client has: a topic and a group of its own, and clients that end with it. */
final class Stage extends Performance {
    private static final AtomicInteger CLIENTS = new AtomicInteger();
    static final int QUEUES = 4;

    final String nameserver;
    final String topic;
    final String group;

    Stage(String nameserver, String topic, Kill kill) {
        super(kill);
        this.nameserver = nameserver;
        this.topic = topic;
        this.group = "cg-" + topic;
    }

    /** A name that no other client of this process has. */
    static String name() {
        return "client" + CLIENTS.incrementAndGet();
    }

    static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    /** Exactly these, each once, whatever the order; half a second is waited for what is too many. */
    static void same(String what, Queue<String> seen, Collection<String> wanted) throws Exception {
        until(what + ": " + wanted.size() + " of them", 90, () -> seen.size() >= wanted.size());
        Thread.sleep(500);
        same(seen, wanted);
    }

    Message message(String body) {
        return new Message(topic, "TagA", "key-" + body, body.getBytes(StandardCharsets.UTF_8));
    }

    <T extends DefaultMQProducer> T started(T producer) throws Exception {
        producer.setNamesrvAddr(nameserver);
        producer.setInstanceName(name());
        producer.setSendMsgTimeout(15_000);
        producer.start();
        atEnd(producer::shutdown);
        return producer;
    }

    /** A started producer whose topic is there: a consumer asks for the route of an unknown topic every 30 s only. */
    <T extends DefaultMQProducer> T prepared(T producer) throws Exception {
        started(producer).createTopic("TBW102", topic, QUEUES);
        return producer;
    }

    DefaultMQProducer producer() throws Exception {
        return prepared(new DefaultMQProducer("pg-" + topic));
    }

    /** Settings of every push consumer here; not started, without subscription and listener. */
    DefaultMQPushConsumer from(DefaultMQPushConsumer consumer) {
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(name());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        atEnd(consumer::shutdown);
        return consumer;
    }

    DefaultMQPushConsumer consumer() throws Exception {
        DefaultMQPushConsumer consumer = from(new DefaultMQPushConsumer(group));
        consumer.subscribe(topic, "TagA || TagB");
        return consumer;
    }

    static MessageListenerConcurrently taking(Queue<String> bodies) {
        return (messages, context) -> {
            for (MessageExt each : messages) {
                bodies.add(text(each));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }
}
