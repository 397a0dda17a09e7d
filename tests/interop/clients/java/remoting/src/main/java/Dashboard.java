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
import org.apache.rocketmq.common.utils.NetworkUtil;
import org.apache.rocketmq.remoting.protocol.admin.ConsumeStats;
import org.apache.rocketmq.remoting.protocol.admin.TopicStatsTable;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.body.CMResult;
import org.apache.rocketmq.remoting.protocol.body.Connection;
import org.apache.rocketmq.remoting.protocol.body.UserInfo;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.admin.api.MessageTrack;
import org.apache.rocketmq.tools.admin.api.TrackType;
import org.apache.rocketmq.tools.command.stats.StatsAllSubCommand;

/** What rocketmq-dashboard asks by DefaultMQAdminExt, page by page: `Dashboard NAMESERVER BROKER TOPIC`. */
public final class Dashboard {
    private static final int COUNT = 24;
    private static DefaultMQAdminExt admin;
    private static String broker;
    private static String name;
    private static String members;

    private Dashboard() {
    }

    public static void main(String[] args) {
        broker = args[1];
        name = args[2];
        members = "cg_" + name;
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

    /** A listener has counted a message before its client has moved the position, and positions are sent without an answer. */
    private static boolean isConsumed(DefaultMQPushConsumer consumer, String members) {
        try {
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            ConsumeStats progress = admin.examineConsumeStats(members, name);
            return progress.getOffsetTable().size() == 4 && progress.computeTotalDiff() == 0;
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static void topics() throws Exception {
        ClusterInfo cluster = admin.examineBrokerClusterInfo();
        check(cluster.getBrokerAddrTable().get("broker-a").getBrokerAddrs().get(0L).equals(broker), cluster.getBrokerAddrTable());
        check(cluster.getClusterAddrTable().get("DefaultCluster").equals(Set.of("broker-a")), cluster.getClusterAddrTable());
        admin.createAndUpdateTopicConfig(broker, new TopicConfig(name, 4, 4, 6, 0));
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName(members);
        group.setRetryMaxTimes(7);
        admin.createAndUpdateSubscriptionGroupConfig(broker, group);
        check(admin.fetchAllTopicList().getTopicList().contains(name), "the list of topics");
        TopicConfig topic = admin.examineTopicConfig(broker, name);
        check(topic.getReadQueueNums() == 4 && topic.getPerm() == 6, topic);
        check(admin.getAllTopicConfig(broker, 5_000).getTopicConfigTable().get(name).getWriteQueueNums() == 4, "all topics");
        check(admin.examineSubscriptionGroupConfig(broker, members).getRetryMaxTimes() == 7, "the group");
        check(admin.getAllSubscriptionGroup(broker, 5_000).getSubscriptionGroupTable().containsKey(members), "all groups");
        TopicRouteData route = admin.examineTopicRouteInfo(name);
        check(route.getQueueDatas().get(0).getReadQueueNums() == 4, route);
        check(admin.getBrokerConfig(broker).getProperty("brokerName").equals("broker-a"), "the configuration");
    }

    private static void traffic(String nameserver) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pg_Board");
        producer.setNamesrvAddr(nameserver);
        producer.start();
        List<SendResult> sent = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            sent.add(producer.send(new Message(name, "A", "key" + i, ("m" + i).getBytes(StandardCharsets.UTF_8))));
        }
        producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
        AtomicInteger seen = new AtomicInteger();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(members);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(name, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            seen.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until("all consumed", () -> seen.get() >= COUNT);
        until("all positions are stored", () -> isConsumed(consumer, members));
        TopicStatsTable stats = admin.examineTopicStats(name);
        check(stats.getOffsetTable().values().stream().mapToLong(each -> each.getMaxOffset() - each.getMinOffset()).sum() == COUNT,
            stats.getOffsetTable());
        ConsumeStats progress = admin.examineConsumeStats(members, name);
        check(progress.computeTotalDiff() == 0 && progress.getOffsetTable().size() == 4, progress.getOffsetTable());
        check(admin.examineConsumeStats(members).computeTotalDiff() == 0, "the whole group");
        check(admin.queryTopicConsumeByWho(name).getGroupList().equals(new java.util.HashSet<>(Set.of(members))), "consumed by");
        Connection connection = admin.examineConsumerConnectionInfo(members).getConnectionSet().iterator().next();
        String client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
        check(connection.getClientId().equals(client), connection.getClientId());
        check(admin.examineConsumerConnectionInfo(members, broker).getConnectionSet().size() == 1, "by broker");
        check(admin.examineProducerConnectionInfo("pg_Board", name).getConnectionSet().size() == 1, "producers");
        check(admin.getConsumerRunningInfo(members, client, false).getMqTable().size() >= 4, "running info");
        check(admin.getConsumerRunningInfo(members, client, true).getJstack().contains("ConsumeMessageThread"), "stacks");
        SendResult last = sent.get(COUNT - 1);
        MessageExt message = admin.viewMessage(name, last.getOffsetMsgId());
        check(new String(message.getBody(), StandardCharsets.UTF_8).equals("m" + (COUNT - 1)), message);
        List<MessageExt> byKey = admin.queryMessage(name, "key3", 64, 0, System.currentTimeMillis() + 60_000).getMessageList();
        check(byKey.size() == 1 && where(byKey.get(0)).equals(broker), byKey);
        MessageExt byUniqueId = admin.viewMessage(name, last.getMsgId());
        check(byUniqueId.getQueueOffset() == last.getQueueOffset(), "by unique id");
        check(where(byUniqueId).equals(broker), "where it is stored: " + where(byUniqueId));
        List<MessageTrack> tracks = admin.messageTrackDetail(byUniqueId);
        check(tracks.size() == 1 && tracks.get(0).getTrackType() == TrackType.CONSUMED, tracks);
        for (String each : List.of(last.getMsgId(), last.getOffsetMsgId())) {
            check(admin.consumeMessageDirectly(members, client, name, each).getConsumeResult() == CMResult.CR_SUCCESS,
                "consumed directly");
        }
        until("messages in", () -> today("TOPIC_PUT_NUMS", name) == COUNT);
        until("messages out", () -> today("GROUP_GET_NUMS", name + "@" + members) == COUNT);
        java.util.Map<String, String> runtime = admin.fetchBrokerRuntimeStats(broker).getTable();
        check(Long.parseLong(runtime.get("msgPutTotalTodayNow")) >= COUNT && runtime.containsKey("putTps"), runtime);
        consumer.shutdown();
        admin.resetOffsetByTimestampOld(members, name, 1, true);
        check(admin.examineConsumeStats(members, name).computeTotalDiff() == COUNT, "after the reset of an old tool");
        check(!admin.resetOffsetByTimestamp(name, members, System.currentTimeMillis() + 60_000, true).isEmpty(), "reset");
        check(admin.examineConsumeStats(members, name).computeTotalDiff() == 0, "after the reset");
        producer.shutdown();
    }

    /** The broker's address as the message has it, to which tools send requests about the message. */
    private static String where(MessageExt message) {
        return NetworkUtil.socketAddress2String(message.getStoreHost());
    }

    /** As the dashboard and `mqadmin statsAll` count: of the day, or of the minute, where brokers have no sample of the day yet. */
    private static long today(String kind, String key) {
        try {
            return StatsAllSubCommand.compute24HourSum(admin.viewBrokerStatsData(broker, kind, key));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
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
        admin.deleteSubscriptionGroup(broker, members, true);
        check(!admin.getAllSubscriptionGroup(broker, 5_000).getSubscriptionGroupTable().containsKey(members), "the group has gone");
        admin.deleteTopicInBroker(Set.of(broker), name);
        admin.deleteTopicInNameServer(Set.of(admin.getNameServerAddressList().get(0)), "DefaultCluster", name);
        check(!admin.fetchAllTopicList().getTopicList().contains(name), "the topic has gone");
    }
}
