import java.util.HashSet;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** The node is killed and started again in the middle of these. */
final class GrpcCrash {
    private static final int BEFORE = 200;
    private static final int AFTER = 200;
    private static final int KIND = 5;

    private GrpcCrash() {
    }

    private static void into(GrpcStage stage, ConcurrentLinkedQueue<String> seen) throws Exception {
        stage.push(FilterExpression.SUB_ALL, message -> {
            seen.add(GrpcStage.text(message));
            return ConsumeResult.SUCCESS;
        });
    }

    /** A producer and a push consumer that work all the time: all that was acknowledged is consumed. */
    static void stream(GrpcStage stage) throws Exception {
        Producer producer = stage.producer(null);
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        into(stage, seen);
        Set<String> acknowledged = new HashSet<>();
        int failed = 0;
        int since = 0;
        long limit = 0;
        for (int number = 0; since < AFTER; number++) {
            boolean back = stage.isBack();
            limit = back && limit == 0 ? System.nanoTime() + 90_000_000_000L : limit;
            GrpcStage.check(limit == 0 || System.nanoTime() < limit, "the producer does not come back");
            try {
                producer.send(stage.message("m" + number).build());
                acknowledged.add("m" + number);
                since += back ? 1 : 0;
            } catch (Exception down) {
                failed++;
                Thread.sleep(20);
            }
            if (acknowledged.size() >= BEFORE) {
                stage.readyToBeKilled();
                Thread.sleep(back ? 0 : 5);
            }
        }
        GrpcStage.until("all that was acknowledged is consumed", 90, () -> new HashSet<>(seen).containsAll(acknowledged));
        int again = seen.size() - new HashSet<>(seen).size();
        System.out.println("gRPC: " + acknowledged.size() + " acknowledged, " + failed + " sends failed, " + again
            + " messages came again");
    }

    private static TransactionResolution verdict(String body) {
        boolean commits = body.startsWith("commit") || body.startsWith("open") && (body.charAt(body.length() - 1) - '0') % 2 == 0;
        return commits ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
    }

    private static Producer judged(GrpcStage stage, Set<String> asked) throws Exception {
        return stage.producer(message -> {
            if (!stage.isBack()) {
                return TransactionResolution.UNKNOWN;
            }
            asked.add(GrpcStage.text(message));
            return verdict(GrpcStage.text(message));
        });
    }

    /** Killed between end and consumption: committed is delivered once, rolled back never, open is asked about afterwards. */
    static void transactions(GrpcStage stage) throws Exception {
        Set<String> asked = ConcurrentHashMap.newKeySet();
        Producer producer = judged(stage, asked);
        Set<String> wanted = new TreeSet<>();
        for (int number = 0; number < KIND; number++) {
            for (String kind : new String[] {"commit", "rollback", "open"}) {
                Transaction transaction = producer.beginTransaction();
                producer.send(stage.message(kind + number).build(), transaction);
                if (kind.equals("commit")) {
                    transaction.commit();
                } else if (kind.equals("rollback")) {
                    transaction.rollback();
                }
                if (!kind.equals("rollback") && verdict(kind + number) == TransactionResolution.COMMIT) {
                    wanted.add(kind + number);
                }
            }
        }
        stage.killed();
        settle(stage, asked, wanted, KIND);
        for (int number = 0; number < KIND; number++) {
            GrpcStage.check(asked.contains("open" + number), "not asked about open" + number + ": " + asked);
        }
    }

    /** Killed between half message and end: the decision comes after it, and counts. */
    static void between(GrpcStage stage) throws Exception {
        Set<String> asked = ConcurrentHashMap.newKeySet();
        Producer producer = judged(stage, asked);
        Transaction kept = producer.beginTransaction();
        producer.send(stage.message("commit-late").build(), kept);
        Transaction dropped = producer.beginTransaction();
        producer.send(stage.message("rollback-late").build(), dropped);
        stage.killed();
        end(kept, true);
        end(dropped, false);
        settle(stage, asked, Set.of("commit-late"), 0);
    }

    private static void end(Transaction transaction, boolean commits) {
        try {
            if (commits) {
                transaction.commit();
            } else {
                transaction.rollback();
            }
        } catch (Exception unheard) {
            System.out.println("the decision is left to a question: " + unheard.getMessage());
        }
    }

    private static void settle(GrpcStage stage, Set<String> asked, Set<String> wanted, int questions) throws Exception {
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        into(stage, seen);
        GrpcStage.until("all that commits", 90, () -> seen.size() >= wanted.size() && asked.size() >= questions);
        Thread.sleep(2_000);
        GrpcStage.same(seen, wanted);
    }
}
