import frame.Performance;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What one scenario has: the node's addresses, a topic and a group of its own, and clients that end with it. */
final class Stage extends Performance {
    private static final AtomicInteger CLIENTS = new AtomicInteger();

    final String nameserver;
    final String broker;
    final String topic;
    final String group;
    private final boolean made;

    /** `made`: topics are there already, with four queues: Apache's proxy makes none. */
    Stage(String nameserver, String broker, String name, boolean made, Kill kill) {
        super(kill);
        this.made = made;
        this.nameserver = nameserver;
        this.broker = broker;
        this.topic = "Java-" + name;
        this.group = "cg-" + name;
    }

    /** A name that no other client of this process has. */
    static String name() {
        return "client" + CLIENTS.incrementAndGet();
    }

    static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    Message message(String body) {
        return message("TagA", body);
    }

    Message message(String tag, String body) {
        return new Message(topic, tag, "key-" + body, body.getBytes(StandardCharsets.UTF_8));
    }

    DefaultMQProducer started(DefaultMQProducer producer) throws Exception {
        producer.setNamesrvAddr(nameserver);
        producer.setInstanceName(name());
        producer.setSendMsgTimeout(15_000);
        producer.start();
        atEnd(producer::shutdown);
        return producer;
    }

    /** A producer whose topic is there with 8 queues: a consumer asks for the route of an unknown topic every 30 s only. */
    DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = started(new DefaultMQProducer("pg-" + topic));
        if (!made) {
            producer.createTopic("TBW102", topic, 8, Map.of());
        }
        return producer;
    }

    /** A member from the first message on; not started, without a listener. */
    DefaultMQPushConsumer consumer(String ofGroup, String ofTopic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(ofGroup);
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(name());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(ofTopic, "*");
        atEnd(consumer::shutdown);
        return consumer;
    }

    DefaultMQPushConsumer consumer() throws Exception {
        return consumer(group, topic);
    }

    /** A started member that writes down the bodies. */
    DefaultMQPushConsumer into(Queue<String> bodies, String ofGroup, String ofTopic) throws Exception {
        DefaultMQPushConsumer consumer = consumer(ofGroup, ofTopic);
        consumer.registerMessageListener(taking(bodies));
        consumer.start();
        return consumer;
    }

    static MessageListenerConcurrently taking(Queue<String> bodies) {
        return (messages, context) -> {
            messages.forEach(each -> bodies.add(text(each)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    DefaultMQAdminExt admin() throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(nameserver);
        admin.setInstanceName(name());
        admin.start();
        atEnd(admin::shutdown);
        return admin;
    }

    /** What `mqadmin setConsumeMode -m POP` does; the members then leave the balance to the server. */
    void popped(String ofGroup) throws Exception {
        admin().setMessageRequestMode(broker, topic, ofGroup, MessageRequestMode.POP, 0, 5000);
    }

    long owned(DefaultMQPushConsumer consumer) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(queue -> queue.getTopic().equals(topic)).count();
    }
}
