import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Push members of a FIFO group, to be killed: `GrpcLanes ENDPOINT NAME MEMBERS [KEYS COUNT]`. With the last two it sends COUNT
 * messages of each of KEYS message groups. Prints `seen KEY NUMBER NANOSECONDS` for every message.
 */
public final class GrpcLanes {
    private static final int HANDLING_MS = 10;

    private GrpcLanes() {
    }

    public static void main(String[] arguments) throws Exception {
        GrpcStage stage = new GrpcStage(arguments[0], arguments[1], null);
        for (int member = 0; member < Integer.parseInt(arguments[2]); member++) {
            stage.push(FilterExpression.SUB_ALL, message -> {
                report(message);
                return ConsumeResult.SUCCESS;
            });
        }
        if (arguments.length > 3) {
            Producer producer = stage.producer(null);
            for (int number = 0; number < Integer.parseInt(arguments[4]); number++) {
                for (int key = 0; key < Integer.parseInt(arguments[3]); key++) {
                    producer.send(stage.message(String.valueOf(number)).setMessageGroup("key" + key).build());
                }
            }
        }
        Thread.sleep(Long.MAX_VALUE);
    }

    private static void report(MessageView message) {
        synchronized (System.out) {
            System.out.println("seen " + message.getMessageGroup().orElse("-") + " " + GrpcStage.text(message) + " "
                + System.nanoTime());
            System.out.flush();
        }
        try {
            Thread.sleep(HANDLING_MS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
