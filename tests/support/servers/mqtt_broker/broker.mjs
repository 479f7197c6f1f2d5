// An MQTT broker on 127.0.0.1: `node broker.mjs PORT [USER PASSWORD]`; without a user it lets everybody in.
import { createServer } from "node:net";
import { Aedes } from "aedes";

const [port, user, password] = process.argv.slice(2);
const broker = await Aedes.createBroker({ heartbeatInterval: 60000 });
if (user !== undefined) {
  broker.authenticate = (client, name, word, done) => {
    const known = name === user && String(word) === password;
    if (known) return done(null, true);
    const refusal = new Error("bad user name or password");
    refusal.returnCode = 4;
    return done(refusal, false);
  };
  broker.authorizeSubscribe = (client, subscription, done) =>
    done(null, subscription.topic.startsWith("secret/") ? null : subscription);
}
createServer(broker.handle).listen(Number(port), "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
