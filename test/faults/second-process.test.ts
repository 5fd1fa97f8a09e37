/** A data directory has one serving process; a second one refuses with one line, and the first does not notice. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { runCommand, startService } from '../kit/start-service.ts';

test('a second serve on the same directory refuses to start', async (t) => {
  const service = await startService();
  t.after(() => service.close());
  const second = await runCommand(['serve'], { dataDir: service.dataDir });
  assert.notEqual(second.code, 0);
  const lines = `${second.stderr}${second.stdout}`.trim().split('\n');
  assert.equal(lines.length, 1, `one line: ${lines.join('\n')}`);
  assert.match(lines[0]!, /already serving/);
  assert.equal((await service.anonymous.get('/health')).status, 200);
  const accounts = await service.cli('account', 'list');
  assert.equal(accounts.accounts.length, 1, 'the command line works beside it');
  await service.kill('SIGKILL');
  await service.restart();
  assert.equal((await service.anonymous.get('/ready')).status, 200, 'control: a killed process holds nothing');
});

test('a wrong setting stops the start with one line that names it', async (t) => {
  const service = await startService();
  t.after(() => service.close());
  const env = { POSTRIDER_MX_PORT: 'smtp' };
  const done = await runCommand(['serve'], { dataDir: service.dataDir, env });
  assert.notEqual(done.code, 0);
  const lines = `${done.stderr}${done.stdout}`.trim().split('\n');
  assert.equal(lines.length, 1, lines.join('\n'));
  assert.match(lines[0]!, /POSTRIDER_MX_PORT="smtp".*0 to 65535/);
});
