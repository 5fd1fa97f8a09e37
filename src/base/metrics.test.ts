/** Times of HTTP requests: cumulative buckets by method, route, and class, bounded by the routes. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { createMetrics } from './metrics.ts';

const NAME = 'postrider_http_request_duration_seconds';

test('request times have cumulative buckets by method, route, and class', async () => {
  const metrics = createMetrics();
  for (const [status, seconds] of [
    [200, 0.004],
    [202, 0.02],
    [202, 0.005],
    [503, 7],
  ] as const) {
    metrics.countHttp('POST /notes/:id', status, seconds);
  }
  const samples = new Map(
    (await metrics.text())
      .split('\n')
      .filter((line) => line.startsWith(NAME))
      .map((line) => [line.slice(NAME.length, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
  const labels = (of: string): string => `method="POST",route="/notes/:id",class="${of}"`;
  const bucket = (of: string, le: string): number | undefined => samples.get(`_bucket{${labels(of)},le="${le}"}`);
  assert.deepEqual(
    ['0.005', '0.01', '0.025', '5', '+Inf'].map((le) => bucket('2xx', le)),
    [2, 2, 3, 3, 3],
  );
  assert.deepEqual([bucket('5xx', '5'), bucket('5xx', '+Inf')], [0, 1]);
  assert.equal(samples.get(`_count{${labels('2xx')}}`), 3);
  assert.ok(Math.abs(samples.get(`_sum{${labels('2xx')}}`)! - 0.029) < 1e-9);
  assert.equal(samples.size, 2 * (8 + 3), 'two classes, each with its buckets, sum, and count');
});

test('requests that match no route share one series', async () => {
  const metrics = createMetrics();
  for (let n = 0; n < 3; n += 1) metrics.countHttp('unknown', 404, 0.001);
  assert.match(
    await metrics.text(),
    /^postrider_http_request_duration_seconds_count\{method="unknown",route="unknown",class="4xx"\} 3$/m,
  );
});
