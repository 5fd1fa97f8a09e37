/** An SMTP server that reads messages of any size as fast as it can and discards them: node bench/large-sink.ts PORT */
import net from 'node:net';

const END = Buffer.from('\r\n.\r\n');

net
  .createServer((socket) => {
    let inData = false;
    let tail = Buffer.alloc(0);
    socket.write('220 sink\r\n');
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      if (inData) {
        tail = Buffer.concat([tail, chunk.subarray(-END.length)]).subarray(-END.length);
        if (!tail.equals(END)) return;
        inData = false;
        socket.write('250 2.0.0 OK\r\n');
        return;
      }
      for (const line of chunk.toString('latin1').split('\r\n')) {
        const verb = line.slice(0, 4).toUpperCase();
        if (verb === 'DATA') {
          inData = true;
          tail = Buffer.alloc(0);
          socket.write('354 go on\r\n');
        } else if (verb === 'EHLO') socket.write('250-sink\r\n250-PIPELINING\r\n250 SIZE 100000000\r\n');
        else if (verb === 'QUIT') socket.end('221 bye\r\n');
        else if (verb !== '') socket.write('250 OK\r\n');
      }
    });
  })
  .listen(Number(process.argv[2]), '127.0.0.1');
