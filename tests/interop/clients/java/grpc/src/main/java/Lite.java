import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
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

/**
 * Lite topics and priorities with the official SDK: `Lite ENDPOINT SCENE:TOPIC:GROUP...`, all scenes at once, each in a thread
 * of its own. Prints facts, one a line: "seen", the group, and what is told, with tabs between them. Prints READY when all
 * scenes are over or have come to where the node may be killed, and goes on when a line is read: the node is there again.
 */
public final class Lite {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final int WAIT_S = 45;
    private static final CountDownLatch BACK = new CountDownLatch(1);

    private final ClientConfiguration configuration;
    private final String topic;
    private final String group;
    private final CountDownLatch ready;
    private boolean waited;

    private Lite(String endpoint, String topic, String group, CountDownLatch ready) {
        this.ready = ready;
        configuration = ClientConfiguration.newBuilder().setEndpoints(endpoint).enableSsl(false).build();
        this.topic = topic;
        this.group = group;
    }

    public static void main(String[] arguments) throws Exception {
        CountDownLatch ready = new CountDownLatch(arguments.length - 1);
        List<Thread> threads = new ArrayList<>();
        for (String each : List.of(arguments).subList(1, arguments.length)) {
            String[] words = each.split(":");
            Lite client = new Lite(arguments[0], words[1], words[2], ready);
            Thread thread = new Thread(() -> client.play(words[0]), each);
            thread.start();
            threads.add(thread);
        }
        ready.await();
        System.out.println("READY");
        System.out.flush();
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        BACK.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        System.exit(0);
    }

    private void play(String scene) {
        try {
            switch (scene) {
                case "priority": priority(); break;
                case "lite": lite(); break;
                case "killed": killed(); break;
                case "stay": stay(); break;
                case "exclusive": exclusive(); break;
                case "quota": quota(); break;
                case "unbound": unbound(); break;
                default: throw new IllegalArgumentException(scene);
            }
            told("over");
        } catch (Throwable error) {
            error.printStackTrace();
            told("failed", error.toString().replace('\n', ' '));
        }
        if (!waited) {
            ready.countDown();
        }
    }

    /** The node may be killed now; returns when it is back. */
    private void waitForBack() throws Exception {
        waited = true;
        ready.countDown();
        BACK.await();
    }

    private void told(Object... fields) {
        StringBuilder line = new StringBuilder("seen\t").append(group);
        for (Object field : fields) {
            line.append('\t').append(field);
        }
        synchronized (System.out) {
            System.out.println(line);
        }
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
        CountDownLatch last = new CountDownLatch(1);
        LitePushConsumer consumer = consumer(message -> {
            String body = text(message);
            int times = tries.computeIfAbsent(body, key -> new AtomicInteger()).incrementAndGet();
            told(body, message.getLiteTopic().orElse("-"), message.getDeliveryAttempt(), message.getTopic());
            latch.countDown();
            if (body.equals("a 10")) {
                last.countDown();
            }
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
        // What came for "b" would be there before what came after it.
        produce("a", 10, 11);
        told("done", last.await(WAIT_S, TimeUnit.SECONDS));
        consumer.close();
    }

    /** What is left of a lite topic: the next `count` messages. */
    private void rest(int count) throws Exception {
        CountDownLatch latch = new CountDownLatch(count);
        try (LitePushConsumer consumer = consumer(message -> {
            told(text(message), message.getLiteTopic().orElse("-"), message.getDeliveryAttempt());
            latch.countDown();
            return ConsumeResult.SUCCESS;
        })) {
            consumer.subscribeLite("kept");
            told("done", latch.await(WAIT_S, TimeUnit.SECONDS));
        }
    }

    /** Ten messages are consumed; ten more wait when the node is killed, and come when it is back. */
    private void killed() throws Exception {
        produce("kept", 0, 10);
        rest(10);
        produce("kept", 10, 20);
        waitForBack();
        rest(10);
    }

    /** Has consumed three messages, and stays. */
    private void stay() throws Exception {
        produce("here", 0, 3);
        CountDownLatch latch = new CountDownLatch(3);
        try (LitePushConsumer consumer = consumer(message -> {
            latch.countDown();
            return ConsumeResult.SUCCESS;
        })) {
            consumer.subscribeLite("here");
            consumer.subscribeLite("there");
            told("done", latch.await(WAIT_S, TimeUnit.SECONDS));
            waitForBack();
        }
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
            told(error.getClass().getSimpleName(), "illegal");
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
