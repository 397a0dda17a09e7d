package shop;

import frame.Performance;
import frame.Programme;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/**
 * A Spring Boot application that sends by RocketMQTemplate and has listeners (`Listeners.java`): `Shop NAMESERVER PREFIX`. Prints `OK NAME`
 * or `FAILED NAME` for each scene.
 */
public final class Shop extends Performance {
    static final Map<String, ConcurrentLinkedQueue<String>> SEEN = new ConcurrentHashMap<>();
    private static final int PATIENCE_S = 60;
    private final RocketMQTemplate template;
    private final String prefix;

    /** What Spring finds: this package. */
    @SpringBootApplication(proxyBeanMethods = false)
    public static class Application {
    }

    private Shop(RocketMQTemplate template, String prefix, Kill kill) {
        super(kill);
        this.template = template;
        this.prefix = prefix;
    }

    static void see(String what, String text) {
        SEEN.computeIfAbsent(what, name -> new ConcurrentLinkedQueue<>()).add(text);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("rocketmq.name-server", arguments[0]);
        settings.put("rocketmq.producer.group", arguments[1] + "-producers");
        settings.put("rocketmq.producer.send-message-timeout", 15000);
        settings.put("rocketmq.pull-consumer.group", arguments[1] + "-pullers");
        settings.put("rocketmq.pull-consumer.topic", arguments[1] + "-pulled");
        settings.put("prefix", arguments[1]);
        settings.put("logging.level.root", "ERROR");
        settings.put("spring.main.banner-mode", "off");
        SpringApplication application = new SpringApplication(Application.class);
        application.setDefaultProperties(settings);
        RocketMQTemplate template = application.run().getBean(RocketMQTemplate.class);
        Map<String, Programme.Scene<Shop>> scenes = new HashMap<>();
        scenes.put("convert", Shop::convert);
        scenes.put("orderly", Shop::orderly);
        scenes.put("delayed", Shop::delayed);
        scenes.put("transaction", Shop::transaction);
        scenes.put("pulled", Shop::pulled);
        Programme.perform(scenes, List.of(), false, (name, kill) -> new Shop(template, arguments[1], kill));
        Runtime.getRuntime().halt(0);
    }

    /** Exactly these have been seen, and half a second later too. */
    private static void seen(String what, List<String> wanted) throws InterruptedException {
        ConcurrentLinkedQueue<String> found = SEEN.computeIfAbsent(what, name -> new ConcurrentLinkedQueue<>());
        until(what, PATIENCE_S, () -> found.size() >= wanted.size());
        Thread.sleep(500);
        same(found, wanted);
    }

    /** Synchronous, asynchronous, one-way, batch; tags select, and what a listener throws at comes again. */
    private void convert() throws Exception {
        String topic = prefix + "-convert";
        template.convertAndSend(topic + ":wanted", "plain");
        check(template.syncSend(topic + ":wanted", "sync").getSendStatus() == SendStatus.SEND_OK, "sync");
        template.syncSend(topic + ":other", "nobody wants it");
        CountDownLatch answered = new CountDownLatch(1);
        template.asyncSend(topic + ":wanted", "async", new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                answered.countDown();
            }

            @Override
            public void onException(Throwable error) {
                error.printStackTrace(System.out);
            }
        });
        check(answered.await(PATIENCE_S, TimeUnit.SECONDS), "async");
        template.sendOneWay(topic + ":wanted", "oneway");
        List<Message<String>> batch = new ArrayList<>();
        for (String body : List.of("batch0", "batch1")) {
            batch.add(MessageBuilder.withPayload(body).setHeader("KEYS", body).build());
        }
        check(template.syncSend(topic + ":wanted", batch).getSendStatus() == SendStatus.SEND_OK, "batch");
        template.convertAndSend(topic + ":wanted", "again");
        seen("convert", List.of("plain 0", "sync 0", "async 0", "oneway 0", "batch0 0", "batch1 0", "again 0", "again 1"));
    }

    private void orderly() throws Exception {
        List<String> wanted = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            template.syncSendOrderly(prefix + "-orderly", "m" + i, "one key");
            wanted.add("m" + i);
        }
        seen("orderly", wanted);
        check(List.copyOf(SEEN.get("orderly")).equals(wanted), "order: " + SEEN.get("orderly"));
    }

    /** A level of a second, and a delay of a second and a half. */
    private void delayed() throws Exception {
        long begun = System.currentTimeMillis();
        template.syncSend(prefix + "-delayed", MessageBuilder.withPayload("level").build(), 15_000, 1);
        template.syncSendDelayTimeMills(prefix + "-delayed", "timer", 1500);
        seen("delayed", List.of("level", "timer"));
        check(System.currentTimeMillis() - begun >= 1500, "early");
    }

    /** Committed, rolled back, and asked about. */
    private void transaction() throws Exception {
        for (RocketMQLocalTransactionState state : RocketMQLocalTransactionState.values()) {
            Message<String> message = MessageBuilder.withPayload(state.toString()).build();
            template.sendMessageInTransaction(prefix + "-transaction", message, state);
        }
        seen("transaction", List.of("COMMIT", "UNKNOWN"));
    }

    private void pulled() throws Exception {
        template.syncSend(prefix + "-pulled", "p0");
        List<String> found = new ArrayList<>();
        until("a pulled message", PATIENCE_S, () -> {
            found.addAll(template.receive(String.class, 500));
            return !found.isEmpty();
        });
        check(found.equals(List.of("p0")), found.toString());
    }

    /** Decides as it is told; what it leaves open, it commits when it is asked. */
    @RocketMQTransactionListener
    static class Decider implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object state) {
            return (RocketMQLocalTransactionState) state;
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            return RocketMQLocalTransactionState.COMMIT;
        }
    }
}
