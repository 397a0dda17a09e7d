package shop5;

import frame.Performance;
import frame.Programme;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
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
 * or `FAILED NAME` for each scene. What its template receives is of the one topic `PREFIX-received`.
 */
public final class Shop5 extends Performance {
    private static final Map<String, ConcurrentLinkedQueue<String>> SEEN = new ConcurrentHashMap<>();
    private static final int PATIENCE_S = 60;
    private final RocketMQClientTemplate template;
    private final String prefix;

    /** What Spring finds: this package. */
    @SpringBootApplication
    public static class Application {
    }

    private Shop5(RocketMQClientTemplate template, String prefix, Kill kill) {
        super(kill);
        this.template = template;
        this.prefix = prefix;
    }

    public static void main(String[] arguments) throws Exception {
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
        RocketMQClientTemplate template = application.run().getBean(RocketMQClientTemplate.class);
        Map<String, Programme.Scene<Shop5>> scenes = new LinkedHashMap<>();
        scenes.put("normal", Shop5::normal);
        scenes.put("fifo", Shop5::fifo);
        scenes.put("delayed", Shop5::delayed);
        scenes.put("received", Shop5::received);
        scenes.put("transaction", Shop5::transaction);
        Programme.perform(scenes, List.of(), false, (name, kill) -> new Shop5(template, arguments[1], kill));
        Runtime.getRuntime().halt(0);
    }

    private static ConcurrentLinkedQueue<String> of(String what) {
        return SEEN.computeIfAbsent(what, name -> new ConcurrentLinkedQueue<>());
    }

    private static String text(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    /** Exactly these have been seen, and half a second later too. */
    private static void seen(String what, List<String> wanted) throws InterruptedException {
        until(what, PATIENCE_S, () -> of(what).size() >= wanted.size());
        Thread.sleep(500);
        same(of(what), wanted);
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

    /** Writes down what it gets. */
    abstract static class Taking implements RocketMQListener {
        private final String scene;

        Taking(String scene) {
            this.scene = scene;
        }

        @Override
        public ConsumeResult consume(MessageView message) {
            of(scene).add(text(message));
            return ConsumeResult.SUCCESS;
        }
    }

    @Component
    @RocketMQMessageListener(
        endpoints = "${endpoint}", topic = "${prefix}-fifo", consumerGroup = "${prefix}-fifo-group", tag = "*")
    static class Fifo extends Taking {
        Fifo() {
            super("fifo");
        }
    }

    @Component
    @RocketMQMessageListener(
        endpoints = "${endpoint}", topic = "${prefix}-delayed", consumerGroup = "${prefix}-delayed-group", tag = "*")
    static class Delayed extends Taking {
        Delayed() {
            super("delayed");
        }
    }

    @Component
    @RocketMQMessageListener(
        endpoints = "${endpoint}", topic = "${prefix}-transaction", consumerGroup = "${prefix}-transaction-group", tag = "*")
    static class Decided extends Taking {
        Decided() {
            super("transaction");
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
