import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.TransactionChecker;

/** What one scenario of the official Java SDK has: a topic and a group of its own, which are there, and clients that end with it. */
final class GrpcStage implements AutoCloseable {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    final ClientConfiguration configuration;
    final String topic;
    final String group;
    private final CountDownLatch ready;
    private final CountDownLatch back;
    private final Deque<AutoCloseable> clients = new ArrayDeque<>();
    private boolean paused;

    GrpcStage(String endpoint, String name, CountDownLatch ready, CountDownLatch back) {
        this.configuration = ClientConfiguration.newBuilder().setEndpoints(endpoint).enableSsl(false)
            .setRequestTimeout(Duration.ofSeconds(10)).build();
        this.topic = "JavaGrpc-" + name;
        this.group = topic + "-group";
        this.ready = ready;
        this.back = back;
    }

    @Override
    public void close() throws Exception {
        while (!clients.isEmpty()) {
            clients.pop().close();
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
    void killed() throws InterruptedException {
        readyToBeKilled();
        back.await();
    }

    boolean isBack() {
        return back.getCount() == 0;
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

    static String text(MessageView message) {
        ByteBuffer buffer = message.getBody();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** Exactly these, each once, whatever the order. */
    static void same(Collection<String> seen, Collection<String> wanted) {
        List<String> sorted = new ArrayList<>(seen);
        Collections.sort(sorted);
        check(sorted.equals(new ArrayList<>(new TreeSet<>(wanted))), "seen " + sorted + ", wanted " + new TreeSet<>(wanted));
    }

    MessageBuilder message(String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8)).setTag("TagA")
            .setKeys("key-" + body);
    }

    Producer producer(TransactionChecker checker) throws Exception {
        Producer producer = checker == null
            ? PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build()
            : PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic)
                .setTransactionChecker(checker).build();
        clients.push(producer);
        return producer;
    }

    PushConsumer push(FilterExpression filter, MessageListener listener) throws Exception {
        PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, filter)).setMessageListener(listener).build();
        clients.push(consumer);
        return consumer;
    }

    SimpleConsumer simple(String ofGroup, String ofTopic, FilterExpression filter) throws Exception {
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(ofGroup).setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(ofTopic, filter)).build();
        clients.push(consumer);
        return consumer;
    }

    /** Receive and acknowledge at least so many; then once more, for what may be too many. */
    static List<MessageView> drained(SimpleConsumer consumer, int count, int seconds) throws Exception {
        List<MessageView> found = new ArrayList<>();
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        boolean last = false;
        while (!last && System.nanoTime() < limit) {
            last = found.size() >= count;
            for (MessageView each : consumer.receive(32, Duration.ofSeconds(30))) {
                found.add(each);
                consumer.ack(each);
            }
        }
        return found;
    }
}
