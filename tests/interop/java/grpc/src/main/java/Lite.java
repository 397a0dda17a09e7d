import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.OffsetOption;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Lite topics and priorities with the official SDK. Arguments: endpoint, scenario, topic, group. Prints facts, one a line. */
public final class Lite {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final int WAIT_S = 45;

    private final ClientConfiguration configuration;
    private final String topic;
    private final String group;

    private Lite(String endpoint, String topic, String group) {
        configuration = ClientConfiguration.newBuilder().setEndpoints(endpoint).enableSsl(false).build();
        this.topic = topic;
        this.group = group;
    }

    public static void main(String[] arguments) throws Exception {
        Lite client = new Lite(arguments[0], arguments[2], arguments[3]);
        switch (arguments[1]) {
            case "priority":
                client.priority();
                break;
            case "lite":
                client.lite();
                break;
            case "produce":
                client.produce("kept", 0, 10);
                break;
            case "rest":
                client.rest(Integer.parseInt(arguments[4]));
                break;
            case "exclusive":
                client.exclusive();
                break;
            case "quota":
                client.quota();
                break;
            case "unbound":
                client.unbound();
                break;
            default:
                throw new IllegalArgumentException(arguments[1]);
        }
        System.out.flush();
        System.exit(0);
    }

    private static synchronized void told(Object... fields) {
        StringBuilder line = new StringBuilder("seen");
        for (Object field : fields) {
            line.append('\t').append(field);
        }
        System.out.println(line);
    }

    private static String text(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    private Producer producer() throws Exception {
        return PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
    }

    private LitePushConsumer consumer(MessageListener listener) throws ClientException {
        return PROVIDER.newLitePushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
            .bindTopic(topic).setMessageListener(listener).build();
    }

    private void produce(String lite, int from, int to) throws Exception {
        try (Producer producer = producer()) {
            for (int at = from; at < to; at++) {
                MessageBuilder builder = PROVIDER.newMessageBuilder().setTopic(topic).setLiteTopic(lite);
                producer.send(builder.setBody((lite + " " + at).getBytes(StandardCharsets.UTF_8)).build());
            }
        }
    }

    private void priority() throws Exception {
        try (Producer producer = producer()) {
            for (int at = 0; at < 12; at++) {
                MessageBuilder builder = PROVIDER.newMessageBuilder().setTopic(topic).setPriority(at % 4);
                producer.send(builder.setBody(("body " + at).getBytes(StandardCharsets.UTF_8)).build());
            }
            try {
                producer.send(PROVIDER.newMessageBuilder().setTopic(topic).setBody("plain".getBytes(StandardCharsets.UTF_8)).build());
            } catch (Exception error) {
                told("refused", error.getClass().getSimpleName());
            }
        }
        try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setAwaitDuration(java.time.Duration.ofSeconds(5))
            .setSubscriptionExpressions(java.util.Collections.singletonMap(topic, FilterExpression.SUB_ALL)).build()) {
            int seen = 0;
            while (seen < 12) {
                for (MessageView message : consumer.receive(2, java.time.Duration.ofSeconds(30))) {
                    told(text(message), message.getPriority().orElse(-1));
                    consumer.ack(message);
                    seen++;
                }
            }
        }
    }

    /** Three lite topics, of which two are subscribed to; one message fails once. */
    private void lite() throws Exception {
        produce("a", 0, 3);
        Map<String, AtomicInteger> tries = new ConcurrentHashMap<>();
        CountDownLatch latch = new CountDownLatch(21);
        LitePushConsumer consumer = consumer(message -> {
            String body = text(message);
            int times = tries.computeIfAbsent(body, key -> new AtomicInteger()).incrementAndGet();
            told(body, message.getLiteTopic().orElse("-"), message.getDeliveryAttempt(), message.getTopic());
            latch.countDown();
            return body.equals("b 4") && times == 1 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        });
        consumer.subscribeLite("a", OffsetOption.MIN_OFFSET);
        consumer.subscribeLite("b");
        produce("a", 3, 10);
        produce("b", 0, 10);
        produce("c", 0, 3);
        boolean all = latch.await(WAIT_S, TimeUnit.SECONDS);
        told("done", all, String.join(",", new java.util.TreeSet<>(consumer.getLiteTopicSet())));
        consumer.unsubscribeLite("b");
        produce("b", 10, 12);
        Thread.sleep(1500);
        consumer.close();
    }

    /** What is left of a lite topic; ends when `count` have come, and two seconds have been silent. */
    private void rest(int count) throws Exception {
        CountDownLatch latch = new CountDownLatch(count);
        LitePushConsumer consumer = consumer(message -> {
            told(text(message), message.getLiteTopic().orElse("-"), message.getDeliveryAttempt());
            latch.countDown();
            return ConsumeResult.SUCCESS;
        });
        consumer.subscribeLite("kept");
        told("done", latch.await(WAIT_S, TimeUnit.SECONDS));
        Thread.sleep(2000);
        consumer.close();
    }

    private void exclusive() throws Exception {
        CountDownLatch latch = new CountDownLatch(5);
        LitePushConsumer first = consumer(message -> ConsumeResult.SUCCESS);
        first.subscribeLite("own");
        LitePushConsumer second = consumer(message -> {
            told("second", text(message));
            latch.countDown();
            return ConsumeResult.SUCCESS;
        });
        second.subscribeLite("own");
        for (int at = 0; at < 100 && !first.getLiteTopicSet().isEmpty(); at++) {
            Thread.sleep(50);
        }
        told("first", first.getLiteTopicSet().size(), second.getLiteTopicSet().size());
        produce("own", 0, 5);
        told("done", latch.await(WAIT_S, TimeUnit.SECONDS));
        first.close();
        second.close();
    }

    private void quota() throws Exception {
        LitePushConsumer consumer = consumer(message -> ConsumeResult.SUCCESS);
        for (int at = 0; at < 4; at++) {
            try {
                consumer.subscribeLite("q" + at);
                told("ok", at);
            } catch (Exception error) {
                told(error.getClass().getSimpleName(), at);
            }
        }
        try {
            consumer.subscribeLite("no/slash");
        } catch (Exception error) {
            told(error.getMessage().contains("40020"), "illegal");
        }
        consumer.close();
    }

    private void unbound() throws Exception {
        try (LitePushConsumer consumer = consumer(message -> ConsumeResult.SUCCESS)) {
            consumer.subscribeLite("a");
            told("ok");
        } catch (Exception error) {
            told(error.getClass().getSimpleName(), error.getMessage().contains("lite.bind.topic"));
        }
    }
}
