import frame.Performance;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
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
final class GrpcStage extends Performance {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    final ClientConfiguration configuration;
    final String topic;
    final String group;

    GrpcStage(String endpoint, String name, Kill kill) {
        super(kill);
        this.configuration = ClientConfiguration.newBuilder().setEndpoints(endpoint).enableSsl(false)
            .setRequestTimeout(Duration.ofSeconds(10)).build();
        this.topic = "JavaGrpc-" + name;
        this.group = topic + "-group";
    }

    static String text(MessageView message) {
        ByteBuffer buffer = message.getBody();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
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
        atEnd(producer);
        return producer;
    }

    PushConsumer push(FilterExpression filter, MessageListener listener) throws Exception {
        PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, filter)).setMessageListener(listener).build();
        atEnd(consumer);
        return consumer;
    }

    SimpleConsumer simple(String ofGroup, String ofTopic, FilterExpression filter) throws Exception {
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(ofGroup).setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(ofTopic, filter)).build();
        atEnd(consumer);
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
