package shop5;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.annotation.RocketMQMessageListener;
import org.apache.rocketmq.client.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;
import org.apache.rocketmq.client.core.RocketMQClientTemplate;
import org.apache.rocketmq.client.core.RocketMQListener;
import org.apache.rocketmq.client.core.RocketMQTransactionChecker;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.stereotype.Component;

/**
 * A Spring Boot application of the starter for gRPC, with a template, listeners and a checker: `Shop5 ENDPOINT PREFIX`. Prints `OK NAME`
 * or `FAILED NAME` for each thing that it tries. What its template receives is of the one topic `PREFIX-received`.
 */
public final class Shop5 {
    private static final Map<String, ConcurrentLinkedQueue<String>> SEEN = new ConcurrentHashMap<>();
    private static final int PATIENCE_S = 60;
    private final RocketMQClientTemplate template;
    private final String prefix;

    /** What Spring finds: this package. */
    @SpringBootApplication
    public static class Application {
    }

    /** One thing that is tried. */
    interface Scene {
        void play() throws Exception;
    }

    private Shop5(RocketMQClientTemplate template, String prefix) {
        this.template = template;
        this.prefix = prefix;
    }

    public static void main(String[] arguments) {
        Map<String, Object> settings = new HashMap<>();
        for (String kind : List.of("producer", "simple-consumer", "push-consumer")) {
            settings.put("rocketmq." + kind + ".endpoints", arguments[0]);
            settings.put("rocketmq." + kind + ".ssl-enabled", "false");
        }
        settings.put("rocketmq.producer.topic", arguments[1] + "-transaction");
        settings.put("rocketmq.simple-consumer.consumer-group", arguments[1] + "-received-group");
        settings.put("rocketmq.simple-consumer.topic", arguments[1] + "-received");
        settings.put("rocketmq.simple-consumer.tag", "*");
        settings.put("endpoint", arguments[0]);
        settings.put("prefix", arguments[1]);
        settings.put("logging.level.root", "ERROR");
        settings.put("spring.main.banner-mode", "off");
        SpringApplication application = new SpringApplication(Application.class);
        application.setDefaultProperties(settings);
        Shop5 shop = new Shop5(application.run().getBean(RocketMQClientTemplate.class), arguments[1]);
        Map<String, Scene> scenes = new LinkedHashMap<>();
        scenes.put("normal", shop::normal);
        scenes.put("fifo", shop::fifo);
        scenes.put("delayed", shop::delayed);
        scenes.put("received", shop::received);
        scenes.put("transaction", shop::transaction);
        scenes.forEach(Shop5::tell);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void tell(String name, Scene scene) {
        try {
            scene.play();
            System.out.println("OK " + name);
        } catch (Throwable error) {
            System.out.println("FAILED " + name);
            error.printStackTrace(System.out);
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void until(String what, BooleanSupplier holds) throws InterruptedException {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        while (!holds.getAsBoolean()) {
            check(System.nanoTime() < limit, "not within " + PATIENCE_S + " s: " + what);
            Thread.sleep(20);
        }
    }

    private static ConcurrentLinkedQueue<String> of(String what) {
        return SEEN.computeIfAbsent(what, name -> new ConcurrentLinkedQueue<>());
    }

    private static String text(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    /** Exactly these have been seen, and half a second later too. */
    private static void seen(String what, List<String> wanted) throws InterruptedException {
        until(what, () -> of(what).size() >= wanted.size());
        Thread.sleep(500);
        check(new TreeSet<>(of(what)).equals(new TreeSet<>(wanted)) && of(what).size() == wanted.size(), what + ": " + of(what));
    }

    /** Synchronous and asynchronous; tags select, and what a listener fails comes again. */
    private void normal() throws Exception {
        String topic = prefix + "-normal";
        template.convertAndSend(topic + ":wanted", "plain");
        template.syncSendNormalMessage(topic + ":wanted", "sync");
        template.syncSendNormalMessage(topic + ":other", "nobody wants it");
        // The future that is handed in is replaced by one of the template's own, which it returns.
        CompletableFuture<SendReceipt> answered = template.asyncSendNormalMessage(topic + ":wanted", "async", new CompletableFuture<>());
        check(answered.get(PATIENCE_S, TimeUnit.SECONDS).getMessageId() != null, "async");
        template.syncSendNormalMessage(topic + ":wanted", "again");
        seen("normal", List.of("plain 1", "sync 1", "async 1", "again 1", "again 2"));
    }

    private void fifo() throws Exception {
        List<String> wanted = new ArrayList<>();
        for (int at = 0; at < 20; at++) {
            template.syncSendFifoMessage(prefix + "-fifo", "m" + at, "one group");
            wanted.add("m" + at);
        }
        seen("fifo", wanted);
        check(List.copyOf(of("fifo")).equals(wanted), "order: " + of("fifo"));
    }

    private void delayed() throws Exception {
        long begun = System.currentTimeMillis();
        template.syncSendDelayMessage(prefix + "-delayed", "timer", Duration.ofMillis(1500));
        seen("delayed", List.of("timer"));
        check(System.currentTimeMillis() - begun >= 1500, "early");
    }

    private void received() throws Exception {
        template.syncSendNormalMessage(prefix + "-received", "p0");
        List<String> found = new ArrayList<>();
        for (int turn = 0; found.isEmpty() && turn < 10; turn++) {
            for (MessageView each : template.receive(4, Duration.ofSeconds(15))) {
                found.add(text(each));
                template.ack(each);
            }
        }
        check(found.equals(List.of("p0")), found.toString());
    }

    /** Committed, rolled back, and asked about. */
    private void transaction() throws Exception {
        String topic = prefix + "-transaction";
        template.sendMessageInTransaction(topic, "commit").getTransaction().commit();
        template.sendMessageInTransaction(topic, "rollback").getTransaction().rollback();
        template.sendMessageInTransaction(topic, "open");
        seen("transaction", List.of("commit", "open"));
    }

    @Component
    @RocketMQMessageListener(endpoints = "${endpoint}", topic = "${prefix}-normal", consumerGroup = "${prefix}-normal-group", tag = "wanted")
    static class Normal implements RocketMQListener {
        @Override
        public ConsumeResult consume(MessageView message) {
            of("normal").add(text(message) + " " + message.getDeliveryAttempt());
            return text(message).equals("again") && message.getDeliveryAttempt() == 1 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        }
    }

    @Component
    @RocketMQMessageListener(endpoints = "${endpoint}", topic = "${prefix}-fifo", consumerGroup = "${prefix}-fifo-group", tag = "*")
    static class Fifo implements RocketMQListener {
        @Override
        public ConsumeResult consume(MessageView message) {
            of("fifo").add(text(message));
            return ConsumeResult.SUCCESS;
        }
    }

    @Component
    @RocketMQMessageListener(endpoints = "${endpoint}", topic = "${prefix}-delayed", consumerGroup = "${prefix}-delayed-group", tag = "*")
    static class Delayed implements RocketMQListener {
        @Override
        public ConsumeResult consume(MessageView message) {
            of("delayed").add(text(message));
            return ConsumeResult.SUCCESS;
        }
    }

    @Component
    @RocketMQMessageListener(
        endpoints = "${endpoint}", topic = "${prefix}-transaction", consumerGroup = "${prefix}-transaction-group", tag = "*")
    static class Decided implements RocketMQListener {
        @Override
        public ConsumeResult consume(MessageView message) {
            of("transaction").add(text(message));
            return ConsumeResult.SUCCESS;
        }
    }

    /** Commits what is asked about. */
    @RocketMQTransactionListener
    static class Checker implements RocketMQTransactionChecker {
        @Override
        public TransactionResolution check(MessageView message) {
            return TransactionResolution.COMMIT;
        }
    }
}
