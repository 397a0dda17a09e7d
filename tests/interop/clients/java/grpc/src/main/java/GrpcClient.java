import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** The official Java SDK as a user writes it. Arguments: endpoint, plain or tls, scenario, topic, group. Prints facts, one a line. */
public final class GrpcClient {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final int WAIT_S = 45;

    private final ClientConfiguration configuration;
    private final String topic;
    private final String group;

    private GrpcClient(String endpoint, boolean tls, String topic, String group) {
        configuration = ClientConfiguration.newBuilder().setEndpoints(endpoint).enableSsl(tls).build();
        this.topic = topic;
        this.group = group;
    }

    public static void main(String[] arguments) throws Exception {
        GrpcClient client = new GrpcClient(arguments[0], arguments[1].equals("tls"), arguments[3], arguments[4]);
        switch (arguments[2]) {
            case "simple":
                client.produce(20, false);
                client.simple();
                break;
            case "push":
                client.produce(30, false);
                client.push(31);
                break;
            case "fifo":
                client.produce(30, true);
                client.push(30);
                break;
            default:
                throw new IllegalArgumentException(arguments[2]);
        }
        System.out.flush();
        System.exit(0);
    }

    private void produce(int count, boolean fifo) throws Exception {
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build()) {
            for (int at = 0; at < count; at++) {
                MessageBuilder builder = PROVIDER.newMessageBuilder()
                    .setTopic(topic)
                    .setBody(("body " + at).getBytes(StandardCharsets.UTF_8))
                    .setTag(at % 2 == 0 ? "even" : "odd")
                    .setKeys("key-" + at)
                    .addProperty("place", "Zürich");
                if (fifo) {
                    builder.setMessageGroup("group-" + at % 3);
                }
                Message message = builder.build();
                System.out.println("sent " + producer.send(message).getMessageId());
            }
        }
    }

    private void simple() throws Exception {
        FilterExpression even = new FilterExpression("even");
        try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(group)
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, even))
            .build()) {
            int seen = 0;
            boolean givenBack = false;
            long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
            while (seen < 11 && System.nanoTime() < limit) {
                List<MessageView> messages = consumer.receive(32, Duration.ofSeconds(30));
                for (MessageView message : messages) {
                    seen++;
                    report(message);
                    if (!givenBack) {
                        givenBack = true;
                        consumer.changeInvisibleDuration(message, Duration.ofSeconds(1));
                    } else {
                        consumer.ack(message);
                    }
                }
            }
        }
    }

    private void push(int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        Set<String> failed = ConcurrentHashMap.newKeySet();
        try (PushConsumer consumer = PROVIDER.newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                report(message);
                left.countDown();
                boolean fails = count == 31 && body(message).equals("body 3") && failed.add("body 3");
                return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            })
            .build()) {
            left.await(WAIT_S, TimeUnit.SECONDS);
            Thread.sleep(1000);
        }
    }

    private static String body(MessageView message) {
        ByteBuffer buffer = message.getBody();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static synchronized void report(MessageView message) {
        System.out.println(String.join("\t", "seen", body(message), String.valueOf(message.getDeliveryAttempt()),
            message.getTag().orElse("-"), String.join(",", message.getKeys()), message.getMessageGroup().orElse("-"),
            message.getProperties().getOrDefault("place", "-"), message.getMessageId().toString()));
    }
}
