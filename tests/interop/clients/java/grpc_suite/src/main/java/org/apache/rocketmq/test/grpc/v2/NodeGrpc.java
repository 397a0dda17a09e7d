package org.apache.rocketmq.test.grpc.v2;

import apache.rocketmq.v2.Endpoints;
import apache.rocketmq.v2.MessagingServiceGrpc.MessagingServiceBlockingStub;
import apache.rocketmq.v2.ReceiveMessageRequest;
import apache.rocketmq.v2.ReceiveMessageResponse;
import com.google.protobuf.util.Durations;
import io.grpc.ClientInterceptors;
import java.util.List;
import java.util.UUID;
import org.apache.rocketmq.common.constant.GrpcConstants;
import org.apache.rocketmq.proxy.config.ConfigurationManager;
import org.junit.Before;
import org.junit.ComparisonFailure;
import org.junit.Test;
import org.junit.experimental.ParallelComputer;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

/**
 * Apache's integration tests of its gRPC proxy, on a node that runs already: the properties "namesrv" and "grpc" say where. The
 * property "apache" is true for Apache's proxy.
 *
 * Routes name the place that clients say they came to, so they say it. A receive asks for the proxy's least invisible time and
 * for its least time to wait, which those tests set to nothing. One broker is one assignment. Bodies are what they say they are.
 */
public class NodeGrpc extends GrpcBaseIT {
    private static final int LEAST_INVISIBLE_SECONDS = 10;
    private static final int LEAST_WAIT_SECONDS = 6;
    private static final int PORT = Integer.getInteger("grpc");

    @Before
    @Override
    public void setUp() throws Exception {
        header.put(GrpcConstants.CLIENT_ID, "client-id" + UUID.randomUUID());
        header.put(GrpcConstants.LANGUAGE, "JAVA");
        ConfigurationManager.getProxyConfig().setGrpcServerPort(PORT);
        blockingStub = createBlockingStub(ClientInterceptors.intercept(createChannel(PORT), new Bodies()));
        stub = createStub(createChannel(PORT));
    }

    @Override
    public Endpoints buildEndpoints(int unused) {
        return super.buildEndpoints(PORT);
    }

    @Override
    public ReceiveMessageRequest buildReceiveMessageRequest(String topic, String group) {
        return super.buildReceiveMessageRequest(topic, group).toBuilder()
            .setInvisibleDuration(Durations.fromSeconds(LEAST_INVISIBLE_SECONDS)).build();
    }

    @Override
    public List<ReceiveMessageResponse> receiveMessage(MessagingServiceBlockingStub caller, String topic, String group, int seconds) {
        return super.receiveMessage(caller, topic, group, Math.max(seconds, LEAST_WAIT_SECONDS));
    }

    @Test
    public void testQueryRoute() {
        assertQueryRoute(blockingStub.queryRoute(buildQueryRouteRequest(initTopic())), 3 * DEFAULT_QUEUE_NUMS);
    }

    @Test
    @Override
    public void testQueryAssignment() {
        assertQueryAssignment(blockingStub.queryAssignment(buildQueryAssignmentRequest(initTopic(), "group")), 1);
    }

    @Test
    @Override
    public void testQueryFifoAssignment() throws Exception {
        super.testQueryFifoAssignment();
    }

    @Test
    @Override
    public void testTransactionCheckThenCommit() {
        super.testTransactionCheckThenCommit();
    }

    @Test
    @Override
    public void testSimpleConsumerSendAndRecvDelayMessage() throws Exception {
        super.testSimpleConsumerSendAndRecvDelayMessage();
    }

    @Test
    @Override
    public void testSimpleConsumerSendAndRecallDelayMessage() throws Exception {
        super.testSimpleConsumerSendAndRecallDelayMessage();
    }

    /** All but the last of it: what came compressed is handed out plain, which is said with it. Apache's proxy passes all of it. */
    @Test
    @Override
    public void testSimpleConsumerSendAndRecvBigMessage() throws Exception {
        if (Boolean.getBoolean("apache")) {
            super.testSimpleConsumerSendAndRecvBigMessage();
            return;
        }
        var differs = assertThrows(ComparisonFailure.class, super::testSimpleConsumerSendAndRecvBigMessage);
        assertEquals("GZIP", differs.getExpected());
        assertEquals("IDENTITY", differs.getActual());
    }

    @Test
    @Override
    public void testSimpleConsumerSendAndRecv() throws Exception {
        super.testSimpleConsumerSendAndRecv();
    }

    @Test
    @Override
    public void testSimpleConsumerToDLQ() throws Exception {
        super.testSimpleConsumerToDLQ();
    }

    @Test
    @Override
    public void testConsumeOrderly() throws Exception {
        super.testConsumeOrderly();
    }

    /** All tests at once, as most of them wait most of the time; ends with 1 when one fails. */
    public static void main(String[] arguments) throws Exception {
        ConfigurationManager.initEnv();
        ConfigurationManager.initConfig();
        var result = JUnitCore.runClasses(ParallelComputer.methods(), NodeGrpc.class);
        for (Failure failure : result.getFailures()) {
            System.out.println("FAILED " + failure.getDescription().getMethodName() + ": " + failure.getTrimmedTrace());
        }
        System.out.println("ran " + result.getRunCount() + ", failed " + result.getFailureCount());
        System.exit(result.wasSuccessful() ? 0 : 1);
    }
}
