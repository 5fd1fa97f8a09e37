/**
 * Submits messages over kept sessions, or each over its own connection, with STARTTLS and AUTH PLAIN: one command, one reply, as clients
 * without pipelining. A separate process, the same for every system. Prints JSON; ends with 1 after an unexpected reply.
 *
 * node bench/smtp-load.ts --port P --username U --password S [--count 1000] [--sessions 10] [--size 5120] [--each 0]
 */
import net from 'node:net';
import tls from 'node:tls';
import { readArguments } from './lib.ts';

const options = readArguments({
  port: 0,
  username: '',
  password: '',
  count: 1000,
  sessions: 10,
  size: 5120,
  /** 1: one connection per message. */
  each: 0,
  timeout: 120,
});

const HOST = '127.0.0.1';
const FROM = 'bench@bench.example';
const TO = 'rcpt@sink.example';
const line = 'The quick brown fox jumps over the lazy dog. 0123456789 abcdefghijk\r\n';
const body = `${line.repeat(Math.ceil(options.size / line.length)).slice(0, options.size - 2)}\r\n.\r\n`;
const run = `${process.pid}.${Date.now()}`;
const date = new Date().toUTCString().replace('GMT', '+0000');

function mail(index: number): string {
  return `From: <${FROM}>\r\nTo: <${TO}>\r\nSubject: bench ${index}\r\nDate: ${date}\r\nMessage-ID: <${run}.${index}@bench.example>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n${body}`;
}

const plain = Buffer.from(`\0${options.username}\0${options.password}`).toString('base64');
const latenciesMs: number[] = [];
let next = 0;
let failure = '';

/** Uses one connection until nothing is left to send; resolves when it is closed. */
function session(): Promise<void> {
  return new Promise((resolve) => {
    let socket: net.Socket | tls.TLSSocket;
    let heard = '';
    let began = 0;
    let take: (reply: string) => void;
    const close = (why = ''): void => {
      failure ||= why;
      take = () => undefined;
      socket.destroy();
      resolve();
    };
    const say = (text: string, wanted: string, then: () => void): void => {
      take = (reply) => (reply.startsWith(wanted) ? then() : close(`${text.slice(0, 20)} was answered ${reply}`));
      socket.write(text);
    };
    const attach = (one: net.Socket | tls.TLSSocket): void => {
      socket = one;
      one.setNoDelay(true);
      one.on('error', (error) => close(error.message));
      one.on('data', (data: Buffer) => {
        heard += data.toString('latin1');
        let start = 0;
        for (let end = heard.indexOf('\r\n'); end >= 0; end = heard.indexOf('\r\n', start)) {
          const reply = heard.slice(start, end);
          start = end + 2;
          if (reply[3] !== '-') take(reply);
        }
        heard = heard.slice(start);
      });
    };
    const secure = (): void => {
      socket.removeAllListeners('data');
      const secured = tls.connect({ socket: socket as net.Socket, rejectUnauthorized: false });
      attach(secured);
      secured.once('secureConnect', () =>
        say('EHLO bench.example\r\n', '250', () => say(`AUTH PLAIN ${plain}\r\n`, '235', send)),
      );
    };
    const quit = (): void => say('QUIT\r\n', '221', () => close());
    const send = (): void => {
      if (next >= options.count || failure !== '') {
        quit();
        return;
      }
      const index = next;
      next += 1;
      began = performance.now();
      say(`MAIL FROM:<${FROM}>\r\n`, '250', () =>
        say(`RCPT TO:<${TO}>\r\n`, '250', () =>
          say('DATA\r\n', '354', () =>
            say(mail(index), '250', () => {
              latenciesMs.push(performance.now() - began);
              if (options.each === 1) quit();
              else send();
            }),
          ),
        ),
      );
    };
    attach(net.connect(options.port, HOST));
    take = (greeting) =>
      greeting.startsWith('220')
        ? say('EHLO bench.example\r\n', '250', () => say('STARTTLS\r\n', '220', secure))
        : close(greeting);
  });
}

async function worker(): Promise<void> {
  do await session();
  while (next < options.count && failure === '');
}

setTimeout(() => {
  console.log(JSON.stringify({ failure: failure || 'not done in time' }));
  process.exit(1);
}, options.timeout * 1000).unref();
const beganAt = Date.now();
const started = performance.now();
await Promise.all(Array.from({ length: options.sessions }, worker));
const seconds = (performance.now() - started) / 1000;
latenciesMs.sort((a, b) => a - b);
const quantile = (share: number): number | undefined =>
  latenciesMs[Math.min(latenciesMs.length - 1, Math.floor(share * latenciesMs.length))];
const { user, system } = process.cpuUsage();
console.log(
  JSON.stringify({
    sent: latenciesMs.length,
    beganAt,
    seconds,
    p50Ms: quantile(0.5),
    p99Ms: quantile(0.99),
    cpuMs: (user + system) / 1000 / options.count,
    failure,
  }),
);
process.exit(failure === '' && latenciesMs.length === options.count ? 0 : 1);
