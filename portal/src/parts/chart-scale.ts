/** The vertical scale of a chart: from zero to a round value at or above the largest one, with a few ticks at round values. */
const POWERS_OF_TEN = Array.from({ length: 12 }, (_, power) => 10 ** power);
const COUNT_STEPS = POWERS_OF_TEN.flatMap((power) => [power, 2 * power, 5 * power]);
/** Seconds: decimal below a minute, then the steps of a clock, then days. */
const SECOND_STEPS = [
  0.001,
  0.002,
  0.005,
  0.01,
  0.02,
  0.05,
  0.1,
  0.2,
  0.5,
  1,
  2,
  5,
  10,
  15,
  30,
  60,
  120,
  300,
  600,
  900,
  1_800,
  3_600,
  7_200,
  10_800,
  21_600,
  43_200,
  ...COUNT_STEPS.map((days) => days * 86_400),
];

const MOST_STEPS = 5;

/** Returns the ticks for values up to `largest`; the last tick is the top of the chart. */
export function ticksUpTo(largest: number, kind: 'count' | 'seconds'): number[] {
  const steps = kind === 'count' ? COUNT_STEPS : SECOND_STEPS;
  const step = steps.find((one) => largest <= one * MOST_STEPS) ?? steps.at(-1)!;
  const number = Math.max(1, Math.ceil(largest / step));
  // Multiples of a decimal fraction are not exact: 3 * 0.1 is 0.30000000000000004.
  return Array.from({ length: number + 1 }, (_, at) => Number((at * step).toPrecision(12)));
}
