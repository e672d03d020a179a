package holdfast.peer;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.json.JSONArray;
import org.json.JSONObject;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * What a client is made from: mode (single, sentinel, cluster, replicated), addresses, master,
 * lockWatchdogTimeout, fairLockWaitTimeout, shardedSubscriptionMode, prefix (of a NameMapper),
 * checkLockSyncedSlaves, timeout, retryAttempts. Versions of Redisson have some of these in other places, or not at
 * all: then setting one is an error.
 */
final class Settings {
  private Settings() {}

  static RedissonClient open(JSONObject s) throws Exception {
    var config = new Config();
    config.setCodec(StringCodec.INSTANCE).setThreads(8).setNettyThreads(4);
    Object servers = servers(config, s);
    for (String number : new String[] {"timeout", "retryAttempts"}) {
      if (s.has(number)) {
        set(number, s.getInt(number), servers);
      }
    }
    for (String time : new String[] {"lockWatchdogTimeout", "fairLockWaitTimeout"}) {
      if (s.has(time)) {
        set(time, s.getLong(time), config);
      }
    }
    if (s.has("checkLockSyncedSlaves")) {
      set("checkLockSyncedSlaves", s.getBoolean("checkLockSyncedSlaves"), config);
    }
    if (s.has("shardedSubscriptionMode")) {
      set("shardedSubscriptionMode", s.getString("shardedSubscriptionMode"), servers);
    }
    if (s.has("prefix")) {
      set("nameMapper", s.getString("prefix"), servers, config);
    }
    return Redisson.create(config);
  }

  private static Object servers(Config config, JSONObject s) {
    String[] addresses = texts(s.getJSONArray("addresses"));
    switch (s.getString("mode")) {
      case "single":
        return config
            .useSingleServer()
            .setAddress(addresses[0])
            .setConnectionMinimumIdleSize(2)
            .setConnectionPoolSize(16)
            .setSubscriptionConnectionMinimumIdleSize(1);
      case "replicated":
        return config.useReplicatedServers().addNodeAddress(addresses).setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(1);
      case "sentinel":
        return config
            .useSentinelServers()
            .setMasterName(s.getString("master"))
            .addSentinelAddress(addresses)
            .setMasterConnectionMinimumIdleSize(2)
            .setSlaveConnectionMinimumIdleSize(1);
      case "cluster":
        return config
            .useClusterServers()
            .addNodeAddress(addresses)
            .setScanInterval(500)
            .setMasterConnectionMinimumIdleSize(2)
            .setSlaveConnectionMinimumIdleSize(1);
      default:
        throw new IllegalArgumentException("mode " + s.getString("mode"));
    }
  }

  private static String[] texts(JSONArray a) {
    return a.toList().stream().map(Object::toString).toArray(String[]::new);
  }

  /** Calls the setter on the first of targets that has it. */
  private static void set(String property, Object value, Object... targets) throws Exception {
    String setter = "set" + Character.toUpperCase(property.charAt(0)) + property.substring(1);
    for (Object target : targets) {
      for (Method m : target.getClass().getMethods()) {
        if (m.getName().equals(setter) && m.getParameterCount() == 1) {
          m.invoke(target, converted(value, m.getParameterTypes()[0]));
          return;
        }
      }
    }
    throw new IllegalArgumentException("this Redisson has no setting " + property);
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private static Object converted(Object value, Class<?> type) {
    if (type.isEnum()) {
      return Enum.valueOf((Class<Enum>) type, (String) value);
    }
    if (type.isInterface()) {
      return prefixing((String) value, type);
    }
    return value;
  }

  /** A NameMapper, whose interface is not in the same package in all versions. */
  private static Object prefixing(String prefix, Class<?> type) {
    return Proxy.newProxyInstance(
        type.getClassLoader(),
        new Class<?>[] {type},
        (self, method, args) -> {
          switch (method.getName()) {
            case "map":
              return prefix + args[0];
            case "unmap":
              return ((String) args[0]).startsWith(prefix) ? ((String) args[0]).substring(prefix.length()) : args[0];
            case "toString":
              return "prefix " + prefix;
            case "hashCode":
              return prefix.hashCode();
            case "equals":
              return self == args[0];
            default:
              throw new InvocationTargetException(null, method.toString());
          }
        });
  }
}
