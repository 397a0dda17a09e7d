import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;

/** The node is killed and started again under this: `Killed NAMESERVER TOPIC`. Says READY when it can stand that, and waits for a line. */
public final class Killed {
    private static final int BEFORE = 200;
    private static final int AFTER = 200;
    private static volatile boolean back;

    private Killed() {
    }

    public static void main(String[] arguments) {
        try (Stage stage = new Stage(arguments[0], arguments[1])) {
            stream(stage);
            System.out.println("OK stream");
        } catch (Throwable error) {
            System.out.println("FAILED stream");
            error.printStackTrace(System.out);
        }
        System.out.flush();
        System.exit(0);
    }

    /** Sends and consumes all the time: what was acknowledged is consumed. */
    private static void stream(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        producer.setSendMsgTimeout(3_000);
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener(Stage.taking(seen));
        consumer.start();
        Set<String> acknowledged = new HashSet<>();
        int failed = 0;
        int since = 0;
        boolean told = false;
        for (int number = 0; since < AFTER; number++) {
            boolean isBack = back;
            try {
                if (producer.send(stage.message("m" + number)).getSendStatus() == SendStatus.SEND_OK) {
                    acknowledged.add("m" + number);
                    since += isBack ? 1 : 0;
                }
            } catch (Exception down) {
                Stage.check(++failed < 10_000, "the producer does not come back: " + down);
                Thread.sleep(20);
            }
            if (acknowledged.size() >= BEFORE && !told) {
                told = true;
                System.out.println("READY");
                listen();
            }
            Thread.sleep(isBack ? 0 : 5);
        }
        Stage.until("all that was acknowledged is consumed", 120, () -> new HashSet<>(seen).containsAll(acknowledged));
        System.out.println("java4: " + acknowledged.size() + " acknowledged, " + failed + " sends failed, " + seen.size() + " deliveries");
    }

    private static void listen() {
        Thread thread = new Thread(() -> {
            try {
                back = System.in.read() >= 0;
            } catch (java.io.IOException error) {
                throw new IllegalStateException(error);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
