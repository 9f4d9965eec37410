// A task's number as digits of several bases, the last axis of a grid first: next(count) is the task's place along an
// axis of so many, `rest` what is left for the axes outside it.
struct TaskDigits {
  long long rest;

  long long next(long long count) {
    const long long digit = rest % count;
    rest /= count;
    return digit;
  }
};
