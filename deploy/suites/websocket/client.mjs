// A client under test: CLIENTS connections in one room, each sends MESSAGES in a round; the next round
// begins when all of the last have come to all. Counts what is received for SECONDS and says that,
// and the CPU time that it took, as one line of JSON. With PIPELINE instead: echoes, so many in flight.
const env = globalThis.process?.env ?? Deno.env.toObject();
const clients = +(env.CLIENTS ?? 32), messages = +(env.MESSAGES ?? 64), seconds = +(env.SECONDS ?? 3);
const pipeline = +(env.PIPELINE ?? 0), size = +(env.SIZE ?? 16);
const Socket = globalThis.WebSocket ?? (await import("node:module")).createRequire(import.meta.url)("ws").WebSocket;
const text = "Hello, World! ".repeat(Math.ceil(size / 14)).slice(0, size);
const sockets = await Promise.all(Array.from({ length: clients }, (_, i) => new Promise((resolve, reject) => {
  const socket = new Socket(pipeline > 0 ? env.URL : `${env.URL}?name=c${i}&clients=${clients}`);
  socket.onerror = () => reject(new Error("cannot connect"));
  if (pipeline > 0) socket.onopen = () => resolve(socket);
  else socket.onmessage = () => resolve(socket); // ready
})));
let received = 0, wrong = 0, left = 0, done = false;
const round = () => {
  left = clients * messages * clients;
  for (let i = 0; i < messages; i++) for (const socket of sockets) socket.send(text);
};
for (const socket of sockets) {
  socket.onclose = () => { if (!done) { console.error("a connection was closed"); process.exit(1); } };
  socket.onmessage = pipeline > 0
    ? (event) => { received++; wrong += event.data !== text; socket.send(text); }
    : (event) => { received++; wrong += !event.data.endsWith(text); if (--left === 0 && !done) setTimeout(round, 0); };
}
if (pipeline > 0) for (const socket of sockets) for (let i = 0; i < pipeline; i++) socket.send(text);
else round();
const cpu = () => { const { user, system } = process.cpuUsage(); return user + system; };
setTimeout(() => { // what came before is warm-up
  const from = performance.now(), before = received, used = cpu();
  setTimeout(() => {
    const took = (performance.now() - from) / 1000, got = received - before;
    done = true;
    console.log(JSON.stringify({ metric: "received_per_s", value: got / took, unit: "msg/s", better: "higher" }));
    console.log(JSON.stringify({ received_per_s: Math.round(got / took), total: received, wrong,
                                 cpu_ns_per_message: Math.round((cpu() - used) * 1000 / got) }));
    process.exit(wrong > 0 ? 1 : 0);
  }, seconds * 1000);
}, 500);
