import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.admin.ConsumeStats;
import org.apache.rocketmq.remoting.protocol.admin.TopicStatsTable;
import org.apache.rocketmq.remoting.protocol.body.BrokerStatsData;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.body.CMResult;
import org.apache.rocketmq.remoting.protocol.body.Connection;
import org.apache.rocketmq.remoting.protocol.body.UserInfo;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.admin.api.MessageTrack;
import org.apache.rocketmq.tools.admin.api.TrackType;

/** What rocketmq-dashboard asks by DefaultMQAdminExt, page by page: `Dashboard NAMESERVER BROKER`. */
public final class Dashboard {
    private static final String TOPIC = "Board";
    private static final String GROUP = "cg_Board";
    private static final int COUNT = 24;
    private static DefaultMQAdminExt admin;
    private static String broker;

    private Dashboard() {
    }

    public static void main(String[] args) {
        broker = args[1];
        try {
            admin = new DefaultMQAdminExt(30_000L);
            admin.setAdminExtGroup("TOOLS_ADMIN");
            admin.setInstanceName("dashboard");
            admin.setNamesrvAddr(args[0]);
            admin.start();
            topics();
            traffic(args[0]);
            users();
            ends();
            admin.shutdown();
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.out.println("OK dashboard");
        System.exit(0);
    }

    private static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(String.valueOf(what));
        }
    }

    private static void until(String what, BooleanSupplier holds) throws Exception {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!holds.getAsBoolean()) {
            check(System.nanoTime() < limit, what);
            Thread.sleep(50);
        }
    }

    private static void topics() throws Exception {
        ClusterInfo cluster = admin.examineBrokerClusterInfo();
        check(cluster.getBrokerAddrTable().get("broker-a").getBrokerAddrs().get(0L).equals(broker), cluster.getBrokerAddrTable());
        check(cluster.getClusterAddrTable().get("DefaultCluster").equals(Set.of("broker-a")), cluster.getClusterAddrTable());
        admin.createAndUpdateTopicConfig(broker, new TopicConfig(TOPIC, 4, 4, 6, 0));
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName(GROUP);
        group.setRetryMaxTimes(7);
        admin.createAndUpdateSubscriptionGroupConfig(broker, group);
        check(admin.fetchAllTopicList().getTopicList().contains(TOPIC), "the list of topics");
        TopicConfig topic = admin.examineTopicConfig(broker, TOPIC);
        check(topic.getReadQueueNums() == 4 && topic.getPerm() == 6, topic);
        check(admin.getAllTopicConfig(broker, 5_000).getTopicConfigTable().get(TOPIC).getWriteQueueNums() == 4, "all topics");
        check(admin.examineSubscriptionGroupConfig(broker, GROUP).getRetryMaxTimes() == 7, "the group");
        check(admin.getAllSubscriptionGroup(broker, 5_000).getSubscriptionGroupTable().containsKey(GROUP), "all groups");
        TopicRouteData route = admin.examineTopicRouteInfo(TOPIC);
        check(route.getQueueDatas().get(0).getReadQueueNums() == 4, route);
        check(admin.getBrokerConfig(broker).getProperty("brokerName").equals("broker-a"), "the configuration");
    }

    private static void traffic(String nameserver) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pg_Board");
        producer.setNamesrvAddr(nameserver);
        producer.start();
        List<SendResult> sent = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            sent.add(producer.send(new Message(TOPIC, "A", "key" + i, ("m" + i).getBytes(StandardCharsets.UTF_8))));
        }
        producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
        AtomicInteger seen = new AtomicInteger();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(GROUP);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            seen.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until("all consumed", () -> seen.get() >= COUNT);
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        Thread.sleep(500);
        TopicStatsTable stats = admin.examineTopicStats(TOPIC);
        check(stats.getOffsetTable().values().stream().mapToLong(each -> each.getMaxOffset() - each.getMinOffset()).sum() == COUNT,
            stats.getOffsetTable());
        ConsumeStats progress = admin.examineConsumeStats(GROUP, TOPIC);
        check(progress.computeTotalDiff() == 0 && progress.getOffsetTable().size() == 4, progress.getOffsetTable());
        check(admin.examineConsumeStats(GROUP).computeTotalDiff() == 0, "the whole group");
        check(admin.queryTopicConsumeByWho(TOPIC).getGroupList().equals(new java.util.HashSet<>(Set.of(GROUP))), "consumed by");
        Connection connection = admin.examineConsumerConnectionInfo(GROUP).getConnectionSet().iterator().next();
        String client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
        check(connection.getClientId().equals(client), connection.getClientId());
        check(admin.examineConsumerConnectionInfo(GROUP, broker).getConnectionSet().size() == 1, "by broker");
        check(admin.examineProducerConnectionInfo("pg_Board", TOPIC).getConnectionSet().size() == 1, "producers");
        check(admin.getConsumerRunningInfo(GROUP, client, false).getMqTable().size() >= 4, "running info");
        check(admin.getConsumerRunningInfo(GROUP, client, true).getJstack().contains("ConsumeMessageThread"), "stacks");
        SendResult last = sent.get(COUNT - 1);
        MessageExt message = admin.viewMessage(TOPIC, last.getOffsetMsgId());
        check(new String(message.getBody(), StandardCharsets.UTF_8).equals("m" + (COUNT - 1)), message);
        check(admin.viewMessage(TOPIC, last.getMsgId()).getQueueOffset() == last.getQueueOffset(), "by unique id");
        check(admin.queryMessage(TOPIC, "key3", 64, 0, System.currentTimeMillis() + 60_000).getMessageList().size() == 1, "by key");
        List<MessageTrack> tracks = admin.messageTrackDetail(message);
        check(tracks.size() == 1 && tracks.get(0).getTrackType() == TrackType.CONSUMED, tracks);
        check(admin.consumeMessageDirectly(GROUP, client, TOPIC, last.getOffsetMsgId()).getConsumeResult() == CMResult.CR_SUCCESS,
            "consumed directly");
        BrokerStatsData put = admin.viewBrokerStatsData(broker, "TOPIC_PUT_NUMS", TOPIC);
        check(put.getStatsDay().getSum() == COUNT, "messages in: " + put.getStatsDay().getSum());
        BrokerStatsData got = admin.viewBrokerStatsData(broker, "GROUP_GET_NUMS", TOPIC + "@" + GROUP);
        check(got.getStatsDay().getSum() == COUNT, "messages out: " + got.getStatsDay().getSum());
        java.util.Map<String, String> runtime = admin.fetchBrokerRuntimeStats(broker).getTable();
        check(Long.parseLong(runtime.get("msgPutTotalTodayNow")) >= COUNT && runtime.containsKey("putTps"), runtime);
        consumer.shutdown();
        check(!admin.resetOffsetByTimestamp(TOPIC, GROUP, 1, true).isEmpty(), "reset");
        check(admin.examineConsumeStats(GROUP, TOPIC).computeTotalDiff() == COUNT, "after the reset");
        admin.resetOffsetByTimestampOld(GROUP, TOPIC, System.currentTimeMillis() + 60_000, true);
        check(admin.examineConsumeStats(GROUP, TOPIC).computeTotalDiff() == 0, "after the reset of an old tool");
        producer.shutdown();
    }

    private static void users() throws Exception {
        admin.createUser(broker, "boarder", "secret-1", "Normal");
        UserInfo user = admin.getUser(broker, "boarder");
        check(user.getUserType().equals("Normal") && user.getUserStatus().equals("enable"), user);
        admin.updateUser(broker, "boarder", "secret-2", "Normal", "disable");
        check(admin.listUser(broker, "board").get(0).getUserStatus().equals("disable"), "disabled");
        admin.createAcl(broker, "User:boarder", List.of("Topic:a", "Group:b"), List.of("Pub", "Sub"), List.of("10.0.0.1"), "Allow");
        admin.updateAcl(broker, "User:boarder", List.of("Topic:a"), List.of("Sub"), List.of("10.0.0.2"), "Deny");
        check(admin.getAcl(broker, "User:boarder").getPolicies().get(0).getEntries().size() == 2, "entries");
        check(admin.listAcl(broker, "boarder", "Topic:a").size() == 1, "policies by resource");
        admin.deleteAcl(broker, "User:boarder", "Topic:a");
        check(admin.getAcl(broker, "User:boarder").getPolicies().get(0).getEntries().size() == 1, "one entry is left");
        admin.deleteAcl(broker, "User:boarder", null);
        check(admin.getAcl(broker, "User:boarder") == null, "none is left");
        admin.deleteUser(broker, "boarder");
        check(admin.getUser(broker, "boarder") == null, "the user has gone");
    }

    private static void ends() throws Exception {
        admin.deleteSubscriptionGroup(broker, GROUP, true);
        check(!admin.getAllSubscriptionGroup(broker, 5_000).getSubscriptionGroupTable().containsKey(GROUP), "the group has gone");
        admin.deleteTopicInBroker(Set.of(broker), TOPIC);
        admin.deleteTopicInNameServer(Set.of(admin.getNameServerAddressList().get(0)), "DefaultCluster", TOPIC);
        check(!admin.fetchAllTopicList().getTopicList().contains(TOPIC), "the topic has gone");
    }
}
