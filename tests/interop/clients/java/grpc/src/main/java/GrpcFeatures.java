import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;

/** What the official Java SDK offers beyond sending and receiving. */
final class GrpcFeatures {
    private static final long HANDLING_MS = 66_000;
    private static final int RETRIES = 2;
    private static final int LIMIT = 4 * 1024 * 1024;

    private GrpcFeatures() {
    }

    /** A listener that works for longer than its lease of a minute: nobody else gets the message, and its success counts. */
    static void renewal(GrpcStage stage) throws Exception {
        Producer producer = stage.producer(null);
        AtomicInteger deliveries = new AtomicInteger();
        AtomicInteger done = new AtomicInteger();
        for (int member = 0; member < 2; member++) {
            stage.push(FilterExpression.SUB_ALL, message -> {
                deliveries.incrementAndGet();
                try {
                    Thread.sleep(HANDLING_MS);
                } catch (InterruptedException error) {
                    return ConsumeResult.FAILURE;
                }
                done.incrementAndGet();
                return ConsumeResult.SUCCESS;
            });
        }
        producer.send(stage.message("slow").build());
        GrpcStage.until("the slow message is handled", 90, () -> done.get() == 1);
        Thread.sleep(4_000);
        GrpcStage.check(deliveries.get() == 1, deliveries.get() + " deliveries");
    }

    /** A push consumer that selects by properties and by tag. */
    static void sql(GrpcStage stage) throws Exception {
        Producer producer = stage.producer(null);
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        String expression = "weight BETWEEN 5 AND 8 AND color = 'red' OR TAGS = 'other' AND note IS NULL";
        stage.push(new FilterExpression(expression, FilterExpressionType.SQL92), message -> {
            seen.add(GrpcStage.text(message));
            return ConsumeResult.SUCCESS;
        });
        Set<String> wanted = new TreeSet<>();
        for (int number = 0; number < 30; number++) {
            int weight = number % 10;
            String color = number % 2 == 0 ? "red" : "blue";
            String tag = number % 7 == 0 ? "other" : "TagA";
            producer.send(stage.message("m" + number).setTag(tag).addProperty("weight", String.valueOf(weight))
                .addProperty("color", color).build());
            if (weight >= 5 && weight <= 8 && number % 2 == 0 || number % 7 == 0) {
                wanted.add("m" + number);
            }
        }
        GrpcStage.until("all selected", 40, () -> seen.size() >= wanted.size());
        Thread.sleep(1_000);
        GrpcStage.same(seen, wanted);
    }

    /** A message that always fails is a dead letter after the group's attempts; with its tag, keys and properties. */
    static void dead(GrpcStage stage) throws Exception {
        Producer producer = stage.producer(null);
        ConcurrentLinkedQueue<Integer> attempts = new ConcurrentLinkedQueue<>();
        stage.push(FilterExpression.SUB_ALL, message -> {
            attempts.add(message.getDeliveryAttempt());
            return ConsumeResult.FAILURE;
        });
        producer.send(stage.message("poison").addProperty("note", "kept").build());
        GrpcStage.until("the last attempt", 60, () -> attempts.size() > RETRIES);
        SimpleConsumer undertaker = null;
        long limit = System.nanoTime() + 60_000_000_000L;
        List<MessageView> letters = new ArrayList<>();
        while (letters.isEmpty()) {
            GrpcStage.check(System.nanoTime() < limit, "no dead letter");
            try {
                undertaker = undertaker != null ? undertaker
                    : stage.simple("undertaker-" + stage.group, "%DLQ%" + stage.group, FilterExpression.SUB_ALL);
                letters.addAll(GrpcStage.drained(undertaker, 1, 30));
            } catch (ClientException | IllegalStateException absent) {
                Thread.sleep(1_000);
            }
        }
        GrpcStage.check(letters.size() == 1, letters.size() + " dead letters");
        MessageView letter = letters.get(0);
        GrpcStage.check(GrpcStage.text(letter).equals("poison") && "TagA".equals(letter.getTag().orElse(""))
            && "kept".equals(letter.getProperties().get("note")) && letter.getKeys().contains("key-poison"), letter.toString());
        GrpcStage.check(new ArrayList<>(attempts).equals(List.of(1, 2, 3)), "attempts " + attempts);
    }

    /** Half of the timers are taken back; the others come, never early. */
    static void recall(GrpcStage stage) throws Exception {
        Producer producer = stage.producer(null);
        Set<String> wanted = new TreeSet<>();
        long due = System.currentTimeMillis() + 15_000;
        for (int number = 0; number < 10; number++) {
            SendReceipt receipt = producer.send(stage.message("timer" + number).setDeliveryTimestamp(due).build());
            if (number % 2 == 0) {
                producer.recallMessage(stage.topic, receipt.getRecallHandle());
            } else {
                wanted.add("timer" + number);
            }
        }
        List<String> bodies = new ArrayList<>();
        for (MessageView each : GrpcStage.drained(stage.simple(stage.group, stage.topic, FilterExpression.SUB_ALL), 5, 40)) {
            GrpcStage.check(System.currentTimeMillis() >= due, "early");
            bodies.add(GrpcStage.text(each));
        }
        GrpcStage.same(bodies, wanted);
        try {
            producer.recallMessage(stage.topic, "bm90IGEgaGFuZGxl");
        } catch (ClientException refused) {
            return;
        }
        throw new AssertionError("what is no handle was recalled");
    }

    /** A receive waits for what comes; a changed invisible time holds a message back that long, and its new handle works. */
    static void waiting(GrpcStage stage) throws Exception {
        Producer producer = stage.producer(null);
        SimpleConsumer consumer = stage.simple(stage.group, stage.topic, FilterExpression.SUB_ALL);
        Thread sender = new Thread(() -> {
            try {
                Thread.sleep(1_500);
                producer.send(stage.message("awaited").build());
            } catch (Exception error) {
                error.printStackTrace();
            }
        });
        long begun = System.nanoTime();
        sender.start();
        List<MessageView> found = consumer.receive(1, Duration.ofSeconds(10));
        long waited = (System.nanoTime() - begun) / 1_000_000L;
        sender.join();
        GrpcStage.check(found.size() == 1 && waited >= 1_400, found.size() + " messages after " + waited + " ms");
        System.out.println("a waiting receive took " + (waited - 1_500) + " ms longer than its message");
        long changed = System.nanoTime();
        consumer.changeInvisibleDuration(found.get(0), Duration.ofSeconds(4));
        List<MessageView> again = new ArrayList<>();
        while (again.isEmpty()) {
            GrpcStage.check(System.nanoTime() - changed < 30_000_000_000L, "it did not come again");
            again.addAll(consumer.receive(1, Duration.ofSeconds(10)));
        }
        GrpcStage.check(System.nanoTime() - changed >= 4_000_000_000L, "it came again too early");
        GrpcStage.check(again.get(0).getDeliveryAttempt() == 2, "attempt " + again.get(0).getDeliveryAttempt());
        consumer.ack(again.get(0));
        GrpcStage.check(consumer.receive(1, Duration.ofSeconds(10)).isEmpty(), "it is still there");
    }

    /** A body of 4 MiB passes; a larger one is refused by what the server's settings told the SDK. */
    static void limit(GrpcStage stage) throws Exception {
        Producer producer = stage.producer(null);
        producer.send(GrpcStage.PROVIDER.newMessageBuilder().setTopic(stage.topic).setBody(new byte[LIMIT]).build());
        List<MessageView> found =
            GrpcStage.drained(stage.simple(stage.group, stage.topic, FilterExpression.SUB_ALL), 1, 30);
        GrpcStage.check(found.size() == 1 && found.get(0).getBody().remaining() == LIMIT, found.size() + " messages");
        try {
            producer.send(GrpcStage.PROVIDER.newMessageBuilder().setTopic(stage.topic).setBody(new byte[LIMIT + 1]).build());
        } catch (Exception refused) {
            System.out.println("refused: " + refused.getMessage());
            return;
        }
        throw new AssertionError("a message above the limit was taken");
    }

    /** Of messages that wait, those of a higher priority come first. */
    static void priority(GrpcStage stage) throws Exception {
        Producer producer = stage.producer(null);
        for (int number = 0; number < 30; number++) {
            producer.send(stage.message("m" + number).setPriority(number % 3).build());
        }
        List<Integer> priorities = new ArrayList<>();
        SimpleConsumer consumer = stage.simple(stage.group, stage.topic, FilterExpression.SUB_ALL);
        for (MessageView each : GrpcStage.drained(consumer, 30, 40)) {
            priorities.add(each.getPriority().orElse(-1));
        }
        List<Integer> wanted = new ArrayList<>();
        for (int at = 0; at < 30; at++) {
            wanted.add(2 - at / 10);
        }
        GrpcStage.check(priorities.equals(wanted), "priorities " + priorities);
    }
}
