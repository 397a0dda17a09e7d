import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A lite pull consumer of a group that others receive in: `MixedLite NAMESERVER TOPIC GROUP`. It says READY, then "got BODY" of each
 * message, until its input ends.
 */
final class MixedLite {
    private MixedLite() {
    }

    public static void main(String[] arguments) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(arguments[2]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], "*");
        consumer.start();
        System.out.println("READY");
        Thread polling = new Thread(() -> {
            while (true) {
                for (MessageExt each : consumer.poll(500)) {
                    System.out.println("got " + Stage.text(each));
                }
            }
        });
        polling.setDaemon(true);
        polling.start();
        System.in.read();
        consumer.shutdown();
        System.exit(0);
    }
}
