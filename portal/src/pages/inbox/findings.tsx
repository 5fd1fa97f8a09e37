/** The findings of the HTML checks: what was found, why it matters, and where. */
import { Text } from '@mantine/core';
import { Badge } from '../../parts/badge.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { checks, rules } from '../../texts/inbox.ts';
import { type Finding, POINTS, scoreOf } from './html-checks.ts';
import classes from './inbox.module.css';

export function Findings({ findings }: { findings: readonly Finding[] }) {
  if (findings.length === 0) return <EmptyState title={checks.good}>{checks.goodHint}</EmptyState>;
  return (
    <>
      <Text>
        {checks.scoreLabel}: <b>{checks.score(scoreOf(findings))}</b>
      </Text>
      <ul className={classes.findings}>
        {findings.map(({ rule, level, examples, count }) => {
          const [what, why] = rules[rule];
          return (
            <li key={rule}>
              <Badge tone={level}>{checks.levels[level]}</Badge> <b>{what}</b>{' '}
              <Text span c="dimmed" size="xs">
                {checks.times(count)} {checks.points(POINTS[level])}
              </Text>
              <div>{why}</div>
              {examples.map((example) => (
                <code key={example} className={classes.example}>
                  {example}
                </code>
              ))}
            </li>
          );
        })}
      </ul>
    </>
  );
}
