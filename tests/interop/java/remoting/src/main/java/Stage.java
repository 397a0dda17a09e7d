import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
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
final class Stage implements AutoCloseable {
    private static final AtomicInteger CLIENTS = new AtomicInteger();

    final String nameserver;
    final String broker;
    final String topic;
    final String group;
    private final CountDownLatch ready;
    private final CountDownLatch back;
    private boolean paused;
    private final Deque<Runnable> ends = new ArrayDeque<>();

    Stage(String nameserver, String broker, String name, CountDownLatch ready, CountDownLatch back) {
        this.nameserver = nameserver;
        this.broker = broker;
        this.topic = "Java-" + name;
        this.group = "cg-" + name;
        this.ready = ready;
        this.back = back;
    }

    @Override
    public void close() {
        while (!ends.isEmpty()) {
            ends.pop().run();
        }
    }

    /** Says that this scenario is ready for the node to be killed, once; later calls do nothing. */
    void readyToBeKilled() {
        if (!paused) {
            paused = true;
            ready.countDown();
        }
    }

    /** Ready, and waits until the node has been killed and is there again. */
    void killed() throws Exception {
        readyToBeKilled();
        awaitBack();
    }

    void awaitBack() throws InterruptedException {
        back.await();
    }

    boolean isBack() {
        return back.getCount() == 0;
    }

    /** A name that no other client of this process has. */
    static String name() {
        return "client" + CLIENTS.incrementAndGet();
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void until(String what, int seconds, BooleanSupplier holds) throws Exception {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (!holds.getAsBoolean()) {
            check(System.nanoTime() < limit, "not within " + seconds + " s: " + what);
            Thread.sleep(20);
        }
    }

    static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    /** Exactly these, each once, whatever the order. */
    static void same(Collection<String> seen, Collection<String> wanted) {
        List<String> twice = new ArrayList<>(seen);
        new HashSet<>(seen).forEach(twice::remove);
        TreeSet<String> missing = new TreeSet<>(wanted);
        missing.removeAll(seen);
        TreeSet<String> foreign = new TreeSet<>(seen);
        foreign.removeAll(wanted);
        check(twice.isEmpty() && missing.isEmpty() && foreign.isEmpty(),
            "missing " + missing + ", more than once " + twice + ", never sent " + foreign);
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
        ends.push(producer::shutdown);
        return producer;
    }

    /** A producer whose topic is there with 8 queues: a consumer asks for the route of an unknown topic every 30 s only. */
    DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = started(new DefaultMQProducer("pg-" + topic));
        producer.createTopic("TBW102", topic, 8, Map.of());
        return producer;
    }

    /** A member from the first message on; not started, without a listener. */
    DefaultMQPushConsumer consumer(String ofGroup, String ofTopic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(ofGroup);
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(name());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(ofTopic, "*");
        ends.push(consumer::shutdown);
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
        ends.push(admin::shutdown);
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
