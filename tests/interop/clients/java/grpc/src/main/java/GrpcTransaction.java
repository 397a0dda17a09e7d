import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Transactions by the official Java SDK. Arguments: endpoint, topic, group. Prints what was seen and asked, one a line. */
public final class GrpcTransaction {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    private GrpcTransaction() {
    }

    public static void main(String[] arguments) throws Exception {
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false).build();
        CountDownLatch left = new CountDownLatch(13);
        Set<String> asked = ConcurrentHashMap.newKeySet();
        try (PushConsumer consumer = PROVIDER.newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(arguments[2])
            .setSubscriptionExpressions(Collections.singletonMap(arguments[1], FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                System.out.println("seen\t" + body(message));
                left.countDown();
                return ConsumeResult.SUCCESS;
            })
            .build();
            Producer producer = PROVIDER.newProducerBuilder()
                .setClientConfiguration(configuration)
                .setTopics(arguments[1])
                .setTransactionChecker(message -> {
                    asked.add(body(message));
                    int number = Integer.parseInt(body(message).split(" ")[1]);
                    return number % 2 == 0 ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
                })
                .build()) {
            for (int at = 0; at < 26; at++) {
                String kind = at < 10 ? "commit" : at < 20 ? "rollback" : "orphan";
                Message message = PROVIDER.newMessageBuilder()
                    .setTopic(arguments[1])
                    .setBody((kind + " " + at).getBytes(StandardCharsets.UTF_8))
                    .build();
                Transaction transaction = producer.beginTransaction();
                producer.send(message, transaction);
                if (at < 10) {
                    transaction.commit();
                } else if (at < 20) {
                    transaction.rollback();
                }
            }
            left.await(80, TimeUnit.SECONDS);
            Thread.sleep(Duration.ofSeconds(3).toMillis());
        }
        asked.forEach(each -> System.out.println("asked\t" + each));
        System.out.flush();
        System.exit(0);
    }

    private static String body(MessageView message) {
        ByteBuffer buffer = message.getBody();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
