/** The status summary of a message: what happened, who has to act, what comes next. */
import { turns } from '../../texts/answer.ts';
import { messagePage } from '../../texts/messages.ts';
import { type Answered, answerOf } from './answer.ts';
import classes from './messages.module.css';
import { useSay } from './use-say.ts';

interface AnswerBoxProps {
  message: Answered;
  isSuppressed?: boolean | undefined;
  /** Whether the reader belongs to the account: others do not see that they have to act. */
  isOwn?: boolean;
}

export function AnswerBox({ message, isSuppressed, isOwn = true }: AnswerBoxProps) {
  const answer = answerOf(message, useSay(), isSuppressed);
  return (
    <section className={`${classes.answer} ${classes[answer.tone]}`} aria-label={messagePage.answer} aria-live="polite">
      <p className={classes.happened}>{answer.happened}</p>
      <p className={classes.next}>
        {(isOwn || answer.turn === 'nobody') && <strong>{turns[answer.turn]} </strong>}
        {answer.next.join(' ')}
      </p>
    </section>
  );
}
