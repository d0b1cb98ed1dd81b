def judge(*a):
    return []
