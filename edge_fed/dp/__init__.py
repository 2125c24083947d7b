"""Dynamic programming: values, gradients and Hessians of finite MDPs, the oracle of the tests."""
